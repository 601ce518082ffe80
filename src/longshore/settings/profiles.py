"""Profiles: named groups of settings, for development, testing and production.

Production has the defaults of the table of settings. A profile in `longshore.toml` may have any name; with one of these
three names it adds to the built-in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longshore.errors import SettingsError
from longshore.settings.table import TABLE, ValueSource

BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    "development": {"max_work": 5, "vpn": False, "database": False, "debug": True},
    "testing": {"max_work": 50, "vpn": False},
    "production": {},
}
"""The built-in profiles, with the settings in which each differs from the defaults."""


def check_profile(name: str, source: ValueSource, own: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `SettingsError` with all known profiles if this one is neither built in nor defined in `longshore.toml`."""
    if name in BUILT_IN or name in own:
        return
    known = ", ".join(sorted({*BUILT_IN, *own}))
    message = f"There is no profile '{name}', which {source} names. The profiles are: {known}."
    setting = TABLE["profile"]
    if source.name in setting.aliases:
        message += f" If {source.name} is meant for another program, {setting.variable} decides."
    raise SettingsError(f"{message} To define your own, add a line [longshore.profiles.{name}] to longshore.toml.")
