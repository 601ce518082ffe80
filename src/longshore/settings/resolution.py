"""Resolve the settings: of all sources that have a value, the one with the highest precedence wins."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longshore.address import same_queue
from longshore.errors import SettingsError
from longshore.settings.files import DOTENV, TOML, TomlFile, read_dotenv, read_toml
from longshore.settings.profiles import BUILT_IN, check_profile
from longshore.settings.table import PREFIX, TABLE, Setting, Settings, ValueSource
from longshore.settings.values import NO, YES, parsed
from longshore.url import mask_url

# Many programs read this variable, each in its own way (`DEBUG=app:*`): a value that is neither yes nor no is ignored.
_SHARED = "DEBUG"
# Variables with our prefix that are not settings: the mark of a worker's child, and those of the project's own tests.
_NO_SETTING = re.compile(r"LONGSHORE_(CHILD_OF|LONG|TEST\w*)\Z")


def resolve(
    cli: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Return the resolved settings; values of the command line (None is "not given") override all others.

    Raises `SettingsError` for an invalid value, an undefined profile, an unknown key of `longshore.toml`, and for two
    variables that name the queue differently, unless the command line names it.
    """
    folder = folder or Path()
    candidates = _Sources(
        cli or {},
        dict(os.environ if environ is None else environ),
        read_dotenv(folder / DOTENV),
        read_toml(folder / TOML),
    )
    profile = candidates.profile()
    values: dict[str, Any] = {}
    sources: dict[str, ValueSource] = {}
    for setting in TABLE.values():
        if found := candidates.find(setting, profile):
            source, raw = found
            values[setting.name] = _checked(setting, raw, source)
            sources[setting.name] = source
    settings = Settings(**values, sources=sources)
    _check_delays(settings)
    return settings


@dataclass(frozen=True)
class _Sources:
    """All sources that may have a value."""

    cli: Mapping[str, Any]
    environment: Mapping[str, str]
    dotenv: Mapping[str, str]
    toml: TomlFile

    def profile(self) -> str:
        setting = TABLE["profile"]
        found = self.find(setting, "")
        if found is None:
            return str(setting.default)
        source, raw = found
        name = str(_checked(setting, raw, source))
        check_profile(name, source, self.toml.profiles)
        return name

    def find(self, setting: Setting, profile: str) -> tuple[ValueSource, Any] | None:
        """Return the unchecked value of the source with the highest precedence; None if no source has one."""
        name = setting.name
        if self.cli.get(name) is not None:
            return ValueSource("command line", setting.flag), self.cli[name]
        if found := _from_environment(setting, self.environment, self.dotenv):
            return found
        # In the same file, a value of this profile overrides the value for all profiles.
        if name in (own := self.toml.profiles.get(profile, {})):
            return ValueSource("profile", profile), own[name]
        if name in self.toml.settings:
            return ValueSource(TOML, name), self.toml.settings[name]
        if name in (built_in := BUILT_IN.get(profile, {})):
            return ValueSource("profile", profile), built_in[name]
        return None


def _check_delays(settings: Settings) -> None:
    shortest, longest = settings.min_delay_seconds, settings.max_delay_seconds
    if shortest > longest and "max_delay_seconds" in settings.sources:
        raise SettingsError(
            f"min_delay_seconds is {shortest:g}, from {settings.source('min_delay_seconds')}, and max_delay_seconds is "
            f"{longest:g}, from {settings.source('max_delay_seconds')}. The shortest pause cannot exceed the longest."
        )


def export_profile(settings: Settings) -> None:
    """Set the variables that handlers read in this process's environment: `LONGSHORE_PROFILE`, `LONGSHORE_DATABASE`.

    Child processes inherit them. If settings are resolved from the same environment later, these values would count as
    set by the user, so use a copy of the environment from before this call.
    """
    for name in ("profile", "database"):
        os.environ[TABLE[name].variable] = settings.shown(name)


def export_api_key(folder: Path | None = None) -> None:
    """Put the API key of `.env` into this process's environment, which is where a queue over HTTP looks for it."""
    variable = TABLE["api_key"].variable
    if (key := read_dotenv((folder or Path()) / DOTENV).get(variable)) and variable not in os.environ:
        os.environ[variable] = key


def unknown_variables(*, environ: Mapping[str, str] | None = None, folder: Path | None = None) -> list[str]:
    """Return a message for each variable of the environment or `.env` that has our prefix and is not a setting."""
    given = {**read_dotenv((folder or Path()) / DOTENV), **(os.environ if environ is None else environ)}
    known = [setting.variable for setting in TABLE.values()]
    variables = {name for setting in TABLE.values() for name in setting.variables}
    unknown = [n for n in given if n.startswith(PREFIX) and n not in variables and not _NO_SETTING.match(n)]
    return [f"unknown setting {name}{_suggestion(name, known)}" for name in sorted(unknown)]


def _suggestion(name: str, known: Sequence[str]) -> str:
    """Return `; did you mean …?` if a known name, or the beginning of one, is similar."""

    def nearness(other: str) -> tuple[float, float]:
        typed, meant = name.removeprefix(PREFIX), other.removeprefix(PREFIX)
        whole, beginning = (difflib.SequenceMatcher(None, typed, part).ratio() for part in (meant, meant[: len(typed)]))
        return max(whole, beginning), whole

    nearest = max(known, key=nearness)
    return f"; did you mean {nearest}?" if nearness(nearest)[0] >= 0.6 else "; `longshore config` lists all settings."


def _from_environment(
    setting: Setting, environment: Mapping[str, str], dotenv: Mapping[str, str]
) -> tuple[ValueSource, str] | None:
    in_process = [
        (ValueSource("environment", name), environment[name])
        for name in setting.variables
        if _applies(name, environment.get(name))
    ]
    # An empty variable of the process hides the one in the file: this is how a user switches it off.
    in_file = [
        (ValueSource(DOTENV, name), dotenv[name])
        for name in setting.variables
        if _applies(name, dotenv.get(name)) and name not in environment
    ]
    if setting.name == "queue":
        # From both sources: jobs sent to the wrong queue are worse than an error.
        return _agreed(setting, [(s, queue_url(s.name, v)) for s, v in in_process + in_file])
    found = in_process or in_file
    # A variable with our prefix, current or former, wins over an alias, which may belong to another program.
    if found and found[0][0].name.startswith(PREFIX):
        return found[0]
    return _agreed(setting, found)


def _applies(name: str, value: str | None) -> bool:
    return bool(value) and (name != _SHARED or str(value).strip().lower() in YES | NO)


def _agreed(setting: Setting, found: list[tuple[ValueSource, str]]) -> tuple[ValueSource, str] | None:
    for source, value in found[1:]:
        first, first_value = found[0]
        if value != first_value and not (setting.name == "queue" and same_queue(value, first_value)):
            what = "name the queue differently" if setting.name == "queue" else f"set {setting.name} differently"
            raise SettingsError(
                f"Two settings {what}: {first} says '{mask_url(first_value)}', {source} says '{mask_url(value)}'. "
                f"Keep one of them, or use {setting.flag}."
            )
    return found[0] if found else None


def queue_url(variable: str, value: str) -> str:
    """Return the queue URL of a variable's value: some variables hold a folder or a plain git remote."""
    if variable == "QUEUE_DIR" and "://" not in value:
        return f"dir://{value}"
    if variable == "GITHUB_REPO_URL" and not value.startswith("git+"):
        if "://" in value:
            return f"git+{value}"
        if short := re.fullmatch(r"(?P<host>[^/\s:]+@[^/\s:]+):(?P<path>\S+)", value):
            return f"git+ssh://{short['host']}/{short['path']}"
        return f"git+file://{Path(value).absolute().as_posix()}"
    return value


def _checked(setting: Setting, raw: Any, source: ValueSource) -> Any:
    try:
        value = parsed(setting.type, raw)
    except ValueError:
        value = None
    if value is None or not setting.holds(value):
        where = str(source) if setting.flag == source.name else f"{setting.name}, from {source},"
        raise SettingsError(f"{where} cannot be '{mask_url(str(raw))}': it takes {setting.allowed}.")
    return value
