"""Every setting, once: its name, the environment variables it answers to, its default and its meaning.

Command line over environment over `longshore.toml` over profile over default. A `.env` file in the current folder is
part of the environment; a variable that is really set wins over the same one in the file. Each value knows where it
came from.
"""

from __future__ import annotations

from longshore.settings.files import DOTENV, TOML, check_finished, export_dotenv, read_dotenv
from longshore.settings.profiles import BUILT_IN
from longshore.settings.resolution import export_profile, queue_url, resolve, unknown_variables
from longshore.settings.table import DEFAULT, DEFAULT_QUEUE, TABLE, Setting, Settings, ValueSource
from longshore.settings.values import SecondsRange, show

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "DEFAULT_QUEUE",
    "DOTENV",
    "TABLE",
    "TOML",
    "SecondsRange",
    "Setting",
    "Settings",
    "ValueSource",
    "check_finished",
    "export_dotenv",
    "export_profile",
    "queue_url",
    "read_dotenv",
    "resolve",
    "show",
    "unknown_variables",
]
