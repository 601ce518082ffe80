"""Profiles: settings that go together under one name, for a try, for a test, and for the real thing.

Production is what the table of settings has as defaults. A profile in `longshore.toml` may have any name; under one of
these three names it adds to what stands here.
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
"""The profiles there are without any file, and where each differs from the defaults."""


def check_profile(name: str, source: ValueSource, own: Mapping[str, Mapping[str, Any]]) -> None:
    """`SettingsError`, naming those there are, for a profile that neither stands here nor in `longshore.toml`."""
    if name in BUILT_IN or name in own:
        return
    known = ", ".join(sorted({*BUILT_IN, *own}))
    message = f"There is no profile '{name}', which {source} names. There are: {known}."
    setting = TABLE["profile"]
    if source.name in setting.aliases:
        message += f" If {source.name} is meant for another program, {setting.variable} decides."
    raise SettingsError(f"{message} A line [longshore.profiles.{name}] in longshore.toml begins one of your own.")
