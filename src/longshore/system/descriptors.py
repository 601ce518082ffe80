"""File descriptors: how they are opened, how they behave, and how many a process may have."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path


def open_binary(path: str | Path, flags: int, mode: int = 0o666) -> int:
    """Open a file like `os.open`, without the translation of line ends that is the default on Windows."""
    if sys.platform == "win32":
        return os.open(path, flags | os.O_BINARY, mode)
    else:
        return os.open(path, flags, mode)


def open_no_follow(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file like `open_binary`, but follow no symbolic link and never wait for the other end of a pipe.

    Raise `OSError` with `ELOOP` for a link. Windows cannot refuse links while opening, so it is checked just before.
    """
    if sys.platform == "win32":
        if os.path.islink(path):  # noqa: PTH114 - called for every job; a `Path` would cost more than the check
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return open_binary(path, flags, mode)
    else:
        return open_binary(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode)


def sync_folder(path: str | Path) -> None:
    """Return when the names in a folder are on the disk; at once on Windows, which cannot open a folder to sync it."""
    if sys.platform != "win32":
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def set_binary(descriptor: int) -> None:
    """Stop Windows from translating line ends on a descriptor that other code opened; other systems never do."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(descriptor, os.O_BINARY)


def set_nonblocking(descriptor: int) -> None:
    """Make writing to a full pipe raise `BlockingIOError`; on Windows it keeps blocking."""
    if sys.platform != "win32":
        os.set_blocking(descriptor, False)


def open_limit() -> int | None:
    """Return how many descriptors this process may open, `sys.maxsize` for no limit; None if it is not known."""
    if sys.platform == "win32":
        return None
    else:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_open_limit() -> None:
    """Raise the limit as far as the system allows: a crawl of many hosts keeps many connections."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            # macOS names a limit that it does not grant; the old one stays then.
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
