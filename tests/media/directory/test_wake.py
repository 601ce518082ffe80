"""Waking: by inotify, or by polling if inotify reports nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.directory import open_queue
from longshore.media.directory.files import wake

NEVER = 3600.0


@pytest.mark.parametrize("means", ["inotify", "looking"])
async def test_a_change_by_another_process_wakes_a_waiter_by_inotify_alone_and_by_polling_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, means: str
) -> None:
    if means == "looking":
        monkeypatch.setattr(wake, "watch_folders", lambda folders: None)
    elif not sys.platform.startswith("linux"):
        pytest.skip("this machine has no inotify")
    else:
        monkeypatch.setattr(wake, "LOOK_EVERY", (NEVER, NEVER))
    looked = asyncio.Event()
    watching = wake._watching

    def watching_now(folders: Sequence[str]) -> AbstractContextManager[asyncio.Event]:
        looked.set()
        return watching(folders)

    monkeypatch.setattr(wake, "_watching", watching_now)
    url = f"dir://{tmp_path / 'queue'}"
    queue, other = await open_queue(url, ManualClock()), await open_queue(url, ManualClock())
    waiting = asyncio.create_task(queue.wait(Want(worker=WorkerId.new()), timedelta(minutes=1)))
    await looked.wait()
    await other.submit([new_job("page", {"n": 1})])
    async with asyncio.timeout(20):
        assert await waiting
    await queue.close()
    await other.close()


async def test_the_change_that_begins_a_new_generation_wakes_a_waiter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.media.directory.journal.generations.GENERATION", 4)
    url = f"dir://{tmp_path / 'queue'}"
    queue, other = await open_queue(url, ManualClock()), await open_queue(url, ManualClock())
    elsewhere = Want(worker=WorkerId.new(), run="elsewhere")
    waiting = asyncio.create_task(queue.wait(elsewhere, timedelta(minutes=1)))
    for number in range(10):
        await other.submit([new_job("page", {"n": number}, run="here")])
    assert not waiting.done()
    await other.submit([new_job("page", {"n": 1}, run="elsewhere")])
    async with asyncio.timeout(20):
        assert await waiting
    await queue.close()
    await other.close()
