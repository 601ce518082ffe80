"""Waking: by inotify if the machine has it, and by polling, because inotify does not report other machines' changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from longshore.system.inotify import watch_folders

LOOK_EVERY = (0.01, 0.25)
"""Seconds between two polls: at first, and after a while without a change. A poll costs one system call."""


async def change(folders: Sequence[str], changed: Callable[[], Awaitable[bool]]) -> None:
    """Return when `changed` is true; checked when something appears in the folders, and regularly."""
    with _watching(folders) as noticed:
        pause, longest = LOOK_EVERY
        # Check after the watch has begun, so that no change falls between.
        while not await changed():
            try:
                # In real time, not by the injected clock: other processes write in real time.
                async with asyncio.timeout(pause):
                    await noticed.wait()
            except TimeoutError:
                pause = min(longest, pause * 1.5)
            # Before the check, not after it: an event that is set during the check must not be lost.
            noticed.clear()


@contextmanager
def _watching(folders: Sequence[str]) -> Iterator[asyncio.Event]:
    """Yield an event that is set when inotify reports something new in one of the folders."""
    noticed = asyncio.Event()
    fd = watch_folders(folders)
    if fd is None:
        yield noticed
        return
    loop = asyncio.get_running_loop()

    def drain() -> None:
        os.read(fd, 1 << 16)
        noticed.set()

    try:
        loop.add_reader(fd, drain)
        yield noticed
    finally:
        loop.remove_reader(fd)
        os.close(fd)
