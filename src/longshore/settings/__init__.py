"""All settings: name, environment variables, default and meaning of each, defined once.

The order of precedence is: command line, environment, `longshore.toml`, profile, default. A `.env` file in the current
folder is part of the environment; a variable of the process wins over the same variable in the file. The source of each
value is recorded.
"""

from __future__ import annotations

from longshore.settings.files import DOTENV, TOML, check_finished, export_dotenv, read_dotenv
from longshore.settings.profiles import BUILT_IN
from longshore.settings.resolution import export_api_key, export_profile, queue_url, resolve, unknown_variables
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
    "export_api_key",
    "export_dotenv",
    "export_profile",
    "queue_url",
    "read_dotenv",
    "resolve",
    "show",
    "unknown_variables",
]
