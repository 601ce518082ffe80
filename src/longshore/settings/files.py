"""The two files that may hold settings: `.env` and `longshore.toml`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longshore.errors import SettingsError
from longshore.settings.table import RENAMED, TABLE

DOTENV = ".env"
TOML = "longshore.toml"

_SECTION = "longshore"
_PROFILES = "profiles"
_SCRAPERS = "scrapers"


@dataclass(frozen=True)
class TomlFile:
    """What `longshore.toml` says: its settings, and those of each profile that it defines. Values are unchecked."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scrapers: Any = None
    """The registry of scrapers, which is none of the settings' business."""


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


def check_finished(path: Path) -> None:
    """`SettingsError` where a line of a `.env` file is no assignment: somebody is still writing it."""
    if not path.is_file():
        return
    from dotenv.parser import parse_stream

    try:
        with path.open(encoding="utf-8-sig") as stream:
            bindings = list(parse_stream(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Save it as UTF-8 text, or remove it.") from error
    for binding in bindings:
        if binding.error or (binding.key is not None and binding.value is None):
            text = binding.original.string
            # The blank lines before it count as its own.
            line = binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")
            # Not what stands there: it may be half of a password.
            raise SettingsError(f"{path}, line {line}, is no assignment. Write NAME=value, or finish the file.")


def export_dotenv(folder: Path | None = None) -> None:
    """Put the variables of `.env` into this process's environment, where handlers look for their own (an API key).

    What is set already is left alone. So are those that are settings: in the environment, the value of this moment
    would stand above the file for as long as the process lives, and above every later change of it.
    """
    settings = {name for setting in TABLE.values() for name in setting.variables}
    for name, value in read_dotenv((folder or Path()) / DOTENV).items():
        if name not in settings:
            os.environ.setdefault(name, value)


def read_toml(path: Path) -> TomlFile:
    """What `longshore.toml` says; nothing where there is none. `SettingsError` for a key that is none of ours."""
    if not path.is_file():
        return TomlFile()
    import tomllib

    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    strangers = [name for name in whole if name not in {_SECTION, _SCRAPERS}]
    if strangers:
        belongs = strangers[0] in TABLE
        hint = " Settings belong under [longshore]." if belongs else " Only [longshore] and [scrapers.NAME] are read."
        raise SettingsError(f"{path}: unknown '{strangers[0]}'.{hint}")
    table = whole.get(_SECTION, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: 'longshore' must be a table: a line [longshore], and the settings below it.")
    profiles = table.pop(_PROFILES, {})
    table = _checked_names(path, _SECTION, table)
    if not isinstance(profiles, dict):
        raise SettingsError(f"{path}: 'profiles' must hold tables: a line [longshore.profiles.NAME] for each.")
    for name, profile in profiles.items():
        section = f"{_SECTION}.{_PROFILES}.{name}"
        if not isinstance(profile, dict):
            raise SettingsError(f"{path}: '{name}' must be a table: a line [{section}], and its settings below it.")
        if "profile" in profile:
            raise SettingsError(f"{path}: [{section}] cannot choose a profile itself. Take its 'profile' away.")
        profiles[name] = _checked_names(path, section, profile)
    return TomlFile(table, profiles, whole.get(_SCRAPERS))


def _checked_names(path: Path, section: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under their present names. `SettingsError` for one that is unknown, or there twice."""
    checked: dict[str, Any] = {}
    for given, value in table.items():
        name = RENAMED.get(given, given)
        if name in checked:
            raise SettingsError(f"{path}: [{section}] sets {name} twice, once as '{given}'. Remove one of the two.")
        checked[name] = value
        if name not in TABLE:
            near = difflib.get_close_matches(name, TABLE, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "Known are: " + ", ".join(TABLE) + "."
            raise SettingsError(f"{path}: unknown setting '{name}' in [{section}]. {hint}")
    return checked
