"""Every setting, once: its name, the environment variables it answers to, its default and its meaning.

Command line over environment over `longshore.toml` over default. A `.env` file in the current folder is part of the
environment; a variable that is really set wins over the same one in the file. Each value knows where it came from.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from longshore.errors import SettingsError
from longshore.url import mask_url

DEFAULT_QUEUE = "sqlite:///.longshore/queue.db"
DOTENV = ".env"
TOML = "longshore.toml"

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})
# Many programs read this one, each in a way of its own (`DEBUG=app:*`): what is no yes and no no is not meant for us.
_SHARED = "DEBUG"
_PREFIX = "LONGSHORE_"
# Variables of that name that are no settings: the mark of a worker's child, and those of the project's own tests.
_NO_SETTING = re.compile(r"LONGSHORE_(CHILD_OF|LONG|TEST\w*)\Z")


@dataclass(frozen=True)
class Source:
    """Where a value came from: one of `command line`, `environment`, `.env`, `longshore.toml`, `default`."""

    level: str
    name: str = ""
    """What it is called there: a flag, a variable, a key."""

    def __str__(self) -> str:
        if self.level == "command line":
            return self.name
        return f"{self.name} ({self.level})" if self.name else self.level


DEFAULT = Source("default")


def _setting(
    default: Any,
    meaning: str,
    *aliases: str,
    at_least: float | None = None,
    choices: tuple[str, ...] = (),
    secret: bool = False,
) -> Any:
    return field(
        default=default,
        metadata={"meaning": meaning, "aliases": aliases, "at_least": at_least, "choices": choices, "secret": secret},
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings with their values, and in `sources` where each came from."""

    queue: str = _setting(
        DEFAULT_QUEUE,
        "The URL of the queue. Its scheme picks the medium.",
        "GITHUB_REPO_URL",
        "QUEUE_DIR",
        "TASKMANAGER_API_URL",
        secret=True,
    )
    lease_seconds: float = _setting(
        300.0, "How long a job is held by a worker that shows no sign of life, before it comes back.", at_least=1
    )
    worker_id: str | None = _setting(
        None,
        "The worker's label in logs and statistics. Left out, one is made of host, process and chance.",
        "WORKER_ID",
    )
    concurrency: int = _setting(8, "How many jobs a worker runs at once.", at_least=1)
    batch_size: int = _setting(100, "How many jobs a worker claims at a time, at most.", at_least=1)
    poll_interval: float = _setting(
        10.0, "The longest wait, in seconds, between two looks for work.", "POLL_INTERVAL", at_least=0.01
    )
    max_work: int = _setting(
        0, "A worker stops after this many jobs. 0 is no limit.", "MAX_WORK_ORDERS", "MAX_RUNS", at_least=0
    )
    max_failures: int = _setting(
        0,
        "A worker stops after finding no work this many times in a row. 0 is no limit.",
        "MAX_CONSECUTIVE_FAILURES",
        at_least=0,
    )
    max_idle_hours: float = _setting(
        0.0, "A worker stops after this many hours without work. 0 is no limit.", "MAX_IDLE_HOURS", at_least=0
    )
    workers: int = _setting(2, "How many worker processes `run` starts.", "WORKER_COUNT", at_least=1)
    debug: bool = _setting(False, "Log every step, and show where an error came from.", "DEBUG")
    log_format: str = _setting(
        "auto",
        "`text` for people, `json` for machines; `auto` is text on a terminal and JSON when piped.",
        choices=("auto", "text", "json"),
    )
    sources: Mapping[str, Source] = field(default_factory=dict)

    @property
    def lease(self) -> timedelta:
        """The lease length as a duration."""
        return timedelta(seconds=self.lease_seconds)

    @property
    def poll(self) -> timedelta:
        """The poll interval as a duration."""
        return timedelta(seconds=self.poll_interval)

    def source(self, name: str) -> Source:
        """Where the value of a setting came from."""
        return self.sources.get(name, DEFAULT)

    def shown(self, name: str) -> str:
        """The value of a setting as text that is safe to show."""
        return show(getattr(self, name))


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    type: type
    default: Any
    meaning: str
    aliases: tuple[str, ...]
    at_least: float | None
    choices: tuple[str, ...]
    secret: bool
    """Its value may hold a password, and is shown with the password masked."""

    @property
    def variable(self) -> str:
        """The canonical environment variable."""
        return f"{_PREFIX}{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Every environment variable it answers to, the canonical one first."""
        return (self.variable, *self.aliases)

    @property
    def flag(self) -> str:
        """What it is called on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def allowed(self) -> str:
        """What it takes, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is bool:
            return "true or false"
        if self.type is str:
            return "text"
        noun = "a whole number" if self.type is int else "a number"
        return noun if self.at_least is None else f"{noun} of at least {self.at_least:g}"


def _table() -> dict[str, Setting]:
    hints = typing.get_type_hints(Settings)
    return {
        f.name: Setting(
            name=f.name,
            type=next(t for t in (typing.get_args(hints[f.name]) or (hints[f.name],)) if t is not type(None)),
            default=f.default,
            **f.metadata,
        )
        for f in fields(Settings)
        if f.metadata
    }


TABLE: Mapping[str, Setting] = _table()
"""Every setting by its name, in the order they are shown."""


def resolve(
    cli: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """The settings as they stand: what the command line said (None is "not said") over everything else.

    Raises `SettingsError` for a value that cannot be used, a key of `longshore.toml` that is none of ours, and for two
    variables that name the queue differently, unless the command line names it.
    """
    folder = folder or Path()
    environment = dict(os.environ if environ is None else environ)
    dotenv = read_dotenv(folder / DOTENV)
    toml = _read_toml(folder / TOML)
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for setting in TABLE.values():
        said = (cli or {}).get(setting.name)
        if said is not None:
            source, raw = Source("command line", setting.flag), said
        elif found := _from_environment(setting, environment, dotenv):
            source, raw = found
        elif setting.name in toml:
            source, raw = Source(TOML, setting.name), toml[setting.name]
        else:
            continue
        values[setting.name] = _checked(setting, raw, source)
        sources[setting.name] = source
    return Settings(**values, sources=sources)


def unknown_variables(*, environ: Mapping[str, str] | None = None, folder: Path | None = None) -> list[str]:
    """A sentence for each variable of the environment or `.env` that is called like a setting of ours and is none."""
    given = {**read_dotenv((folder or Path()) / DOTENV), **(os.environ if environ is None else environ)}
    known = [setting.variable for setting in TABLE.values()]
    strangers = [n for n in given if n.startswith(_PREFIX) and n not in known and not _NO_SETTING.match(n)]
    return [f"unknown setting {name}{_suggested(name, known)}" for name in sorted(strangers)]


def _suggested(name: str, known: Sequence[str]) -> str:
    """`; did you mean …?` where one of the known names is near, or begins nearly so."""

    def nearness(other: str) -> tuple[float, float]:
        typed, meant = name.removeprefix(_PREFIX), other.removeprefix(_PREFIX)
        whole, beginning = (difflib.SequenceMatcher(None, typed, part).ratio() for part in (meant, meant[: len(typed)]))
        return max(whole, beginning), whole

    nearest = max(known, key=nearness)
    return (
        f"; did you mean {nearest}?" if nearness(nearest)[0] >= 0.6 else "; `longshore config` lists those there are."
    )


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file; none where there is no such file (a virtual environment may have that name)."""
    if not path.is_file():
        return {}
    import dotenv

    try:
        found = dotenv.dotenv_values(path, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Save it as UTF-8 text, or remove it.") from error
    return {name: value for name, value in found.items() if value is not None}


def export_dotenv(folder: Path | None = None) -> None:
    """Put the variables of `.env` into this process's environment, where handlers look for their own (an API key).

    What is set already is left alone.
    """
    for name, value in read_dotenv((folder or Path()) / DOTENV).items():
        os.environ.setdefault(name, value)


def show(value: Any) -> str:
    """A value as text that is safe to show: passwords in URLs masked."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else mask_url(str(value))


def _from_environment(
    setting: Setting, environment: Mapping[str, str], dotenv: Mapping[str, str]
) -> tuple[Source, str] | None:
    set_here = [
        (Source("environment", name), environment[name])
        for name in setting.variables
        if _meant(name, environment.get(name))
    ]
    # An empty variable that is really set hides the one in the file: that is how a person switches it off.
    in_file = [
        (Source(DOTENV, name), dotenv[name])
        for name in setting.variables
        if _meant(name, dotenv.get(name)) and name not in environment
    ]
    if setting.name == "queue":
        # Whichever file or shell they come from: work sent to the wrong queue is worse than a refusal.
        return _agreed(setting, [(s, queue_url(s.name, v)) for s, v in set_here + in_file])
    found = set_here or in_file
    # The canonical name is the way out where an alias means something else on this machine.
    if found and found[0][0].name == setting.variable:
        return found[0]
    return _agreed(setting, found)


def _meant(name: str, value: str | None) -> bool:
    return bool(value) and (name != _SHARED or str(value).strip().lower() in _YES | _NO)


def _agreed(setting: Setting, found: list[tuple[Source, str]]) -> tuple[Source, str] | None:
    for source, value in found[1:]:
        first, first_value = found[0]
        if value != first_value:
            what = "name the queue differently" if setting.name == "queue" else f"set {setting.name} differently"
            raise SettingsError(
                f"Two settings {what}: {first} says '{mask_url(first_value)}', {source} says '{mask_url(value)}'. "
                f"Keep one of them, or say {setting.flag}."
            )
    return found[0] if found else None


def queue_url(variable: str, value: str) -> str:
    """The queue URL that a variable means: some of them hold a folder or a plain git remote."""
    if variable == "QUEUE_DIR" and "://" not in value:
        return f"dir://{value}"
    if variable == "GITHUB_REPO_URL" and not value.startswith("git+"):
        if "://" in value:
            return f"git+{value}"
        if short := re.fullmatch(r"(?P<host>[^/\s:]+@[^/\s:]+):(?P<path>\S+)", value):
            return f"git+ssh://{short['host']}/{short['path']}"
        return f"git+file://{Path(value).absolute().as_posix()}"
    return value


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    import tomllib

    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    strangers = [name for name in whole if name != "longshore"]
    if strangers:
        hint = " Settings belong under [longshore]." if strangers[0] in TABLE else " Only [longshore] is read."
        raise SettingsError(f"{path}: unknown '{strangers[0]}'.{hint}")
    table = whole.get("longshore", {})
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: 'longshore' must be a table: a line [longshore], and the settings below it.")
    for name in table:
        if name not in TABLE:
            near = difflib.get_close_matches(name, TABLE, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "Known are: " + ", ".join(TABLE) + "."
            raise SettingsError(f"{path}: unknown setting '{name}'. {hint}")
    return table


def _checked(setting: Setting, raw: Any, source: Source) -> Any:
    try:
        value = _parsed(setting, raw)
    except ValueError:
        value = None
    fits = value is not None and (setting.at_least is None or value >= setting.at_least)
    if not fits or (setting.choices and value not in setting.choices):
        where = str(source) if setting.flag == source.name else f"{setting.name}, from {source},"
        raise SettingsError(f"{where} cannot be '{mask_url(str(raw))}': it takes {setting.allowed}.")
    return value


def _parsed(setting: Setting, raw: Any) -> Any:
    """The value in its type; `ValueError` where it is not one. TOML and the command line give typed values."""
    if setting.type is bool:
        text = str(raw).strip().lower()
        if text not in _YES | _NO:
            raise ValueError
        return text in _YES
    if isinstance(raw, bool | list | dict):
        raise ValueError  # noqa: TRY004 - the caller turns every misfit into one message
    if setting.type is str:
        if not isinstance(raw, str) or not raw.strip():
            raise ValueError
        return raw.strip()
    if setting.type is int:
        if isinstance(raw, float):
            raise ValueError
        return int(raw)
    number = float(raw)
    if not math.isfinite(number):
        raise ValueError
    return number
