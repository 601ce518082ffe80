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
    """The contents of `longshore.toml`: its settings, and those of each profile it defines. Values are not checked."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scrapers: Any = None
    """The registry of scrapers, which the settings do not read."""


def read_dotenv(path: Path) -> dict[str, str]:
    """Return the variables of a `.env` file; none if there is no such file (it may be a virtual environment)."""
    if not path.is_file():
        return {}
    import dotenv

    try:
        found = dotenv.dotenv_values(path, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Save it as UTF-8 text, or remove it.") from error
    return {name: value for name, value in found.items() if value is not None}


def check_finished(path: Path) -> None:
    """Raise `SettingsError` if a line of a `.env` file is not an assignment: the file may still be being written."""
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
            # The parser counts the blank lines before a line as part of it.
            line = binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")
            # The message does not quote the line, which may be half of a password.
            raise SettingsError(f"{path}, line {line}, is not an assignment. Write NAME=value, or finish the file.")


def export_dotenv(folder: Path | None = None) -> None:
    """Add the variables of `.env` to this process's environment, where handlers look for theirs (such as an API key).

    Variables that are already set are not changed. Settings are not added: in the environment, the current value would
    override the file and every later change of it, as long as the process lives.
    """
    settings = {name for setting in TABLE.values() for name in setting.variables}
    for name, value in read_dotenv((folder or Path()) / DOTENV).items():
        if name not in settings:
            os.environ.setdefault(name, value)


def read_toml(path: Path) -> TomlFile:
    """Return the contents of `longshore.toml`; empty if there is no file. Raises `SettingsError` for an unknown key."""
    if not path.is_file():
        return TomlFile()
    import tomllib

    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    unknown = [name for name in whole if name not in {_SECTION, _SCRAPERS}]
    if unknown:
        is_setting = unknown[0] in TABLE
        hint = (
            " Settings belong under [longshore]." if is_setting else " Only [longshore] and [scrapers.NAME] are read."
        )
        raise SettingsError(f"{path}: unknown '{unknown[0]}'.{hint}")
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
            raise SettingsError(f"{path}: [{section}] cannot choose a profile itself. Remove 'profile' from it.")
        profiles[name] = _checked_names(path, section, profile)
    return TomlFile(table, profiles, whole.get(_SCRAPERS))


def _checked_names(path: Path, section: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under their current names. Raises `SettingsError` for an unknown or repeated one."""
    checked: dict[str, Any] = {}
    for given, value in table.items():
        name = RENAMED.get(given, given)
        if name in checked:
            raise SettingsError(f"{path}: [{section}] sets {name} twice, once as '{given}'. Remove one of the two.")
        checked[name] = value
        if name not in TABLE:
            near = difflib.get_close_matches(name, TABLE, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "The settings are: " + ", ".join(TABLE) + "."
            raise SettingsError(f"{path}: unknown setting '{name}' in [{section}]. {hint}")
    return checked
