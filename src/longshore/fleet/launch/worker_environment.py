"""The options and the environment that a worker process is started with."""

from __future__ import annotations

import os
from collections.abc import Iterator

from longshore.settings import TABLE, Settings


def given_options(settings: Settings, *names: str) -> Iterator[str]:
    """What the command line said of these settings, as options for a worker; the rest it looks up itself."""
    for name in names:
        if settings.source(name).level == "command line":
            yield from (TABLE[name].flag, settings.shown(name))


def worker_environment(settings: Settings) -> dict[str, str]:
    """The environment of a worker process that writes its log into a file."""
    # The queue's URL may hold a password: in the environment nobody else on the machine sees it. Its other names
    # are emptied, so that a .env file cannot contradict what was decided here.
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
