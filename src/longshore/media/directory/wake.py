"""Waking: by inotify where the machine has it, and by looking now and then, for no machine tells what another does."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

LOOK_EVERY = (0.01, 0.25)
"""Seconds between two looks: at first, and after a while without work. Each costs one system call."""

_IN_CREATE, _IN_MOVED_TO, _IN_MOVED_FROM = 0x100, 0x80, 0x40


async def change(folders: Sequence[str], changed: Callable[[], Awaitable[bool]]) -> None:
    """Return when `changed` says so; asked when something appears in the folders, and now and then."""
    with _watching(folders) as told:
        pause, longest = LOOK_EVERY
        # Asked after the watch has begun, so that nothing falls between.
        while not await changed():
            try:
                # In real time, whatever the injected clock says: others write when they will.
                async with asyncio.timeout(pause):
                    await told.wait()
            except TimeoutError:
                pause = min(longest, pause * 1.5)
            # Before asking, not after: what is told while the answer is on its way must not be forgotten.
            told.clear()


@contextmanager
def _watching(folders: Sequence[str]) -> Iterator[asyncio.Event]:
    """An event that is set when something appears in one of the folders, as far as this machine tells."""
    told = asyncio.Event()
    fd = _inotify(folders)
    if fd is None:
        yield told
        return
    loop = asyncio.get_running_loop()

    def drain() -> None:
        os.read(fd, 1 << 16)
        told.set()

    try:
        loop.add_reader(fd, drain)
        yield told
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def _inotify(folders: Sequence[str]) -> int | None:
    """A descriptor that becomes readable with every name that appears; None where there is no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except AttributeError:
        return None
    if fd < 0:
        # Too many are open on this machine: then it is looking now and then that must do.
        return None
    for folder in folders:
        libc.inotify_add_watch(fd, os.fsencode(folder), _IN_CREATE | _IN_MOVED_TO | _IN_MOVED_FROM)
    return fd
