"""Waking: by inotify where the machine has it, and by looking now and then, for no machine tells what another does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from longshore.system.inotify import watch_folders

LOOK_EVERY = (0.01, 0.25)
"""Seconds between two looks: at first, and after a while without work. Each costs one system call."""


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
    fd = watch_folders(folders)
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
