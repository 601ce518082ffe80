"""The options and the environment that a worker process is started with."""

from __future__ import annotations

import os
from collections.abc import Iterator

from longshore.settings import TABLE, Settings


def given_options(settings: Settings, *names: str) -> Iterator[str]:
    """Yield the settings that the command line gave, as options for a worker; it resolves the others itself."""
    for name in names:
        if settings.source(name).level == "command line":
            yield from (TABLE[name].flag, settings.shown(name))


def worker_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a worker process that writes its log into a file."""
    # The queue's URL may hold a password: other users of the machine see arguments, but not the environment. The
    # aliases of the variable are emptied, so that a .env file cannot name another queue.
    queue = TABLE["queue"]
    log_format = settings.log_format if "log_format" in settings.sources else "text"
    return {
        **os.environ,
        **dict.fromkeys(queue.aliases, ""),
        queue.variable: settings.queue,
        TABLE["log_format"].variable: log_format,
        TABLE["debug"].variable: str(settings.debug).lower(),
        "PYTHONUTF8": "1",
    }
