"""How many files and connections this process may have open."""

from __future__ import annotations

import contextlib
import sys


def allow_many() -> None:
    """Take as many as the system allows without asking: a crawl of many hosts keeps many connections."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems name a limit that they do not grant; then the old one stays.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
