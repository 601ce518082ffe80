"""Schedules under kill -9: whoever dies around the time a run is due, that time has one run, and all of its jobs."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from tests.services.postgres import PostgresServer

from longshore.clock import SystemClock
from longshore.media import open_queue
from longshore.queue import Queue
from longshore.runs.schedules import trigger
from longshore.runs.schedules.schedule import NAMESPACE, FromList, Schedule, define, keeping, put, run_id, schedule_of
from longshore.runs.schedules.timetable import Timetable
from longshore.runs.schedules.trigger import ScheduleTrigger
from longshore.runs.submit.input_files import InputEntry

from . import dying

JOBS = 5

VICTIM = """
import asyncio, sys
from dying import Mortal
from longshore.clock import SystemClock
from longshore.media import open_queue
from longshore.runs.schedules import trigger as triggering
from longshore.runs.submit import batches

async def main(url, who, step):
    batches.BATCH = 2
    # Nobody is waited for: whoever finds a run begun goes on with it, be the other alive or dead.
    triggering.SILENT_SECONDS = 0.0
    queue = await open_queue(url)
    worker = triggering.ScheduleTrigger(Mortal(queue, step), SystemClock(), who)
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    sys.stdin.readline()
    await worker.look()
    await queue.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.fixture(params=["sqlite", "dir", "git", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a queue, with room for a number in it."""
    match request.param:
        case "sqlite":
            return f"sqlite:///{tmp_path}/queue{{}}.db"
        case "dir":
            return f"dir://{tmp_path}/queue{{}}"
        case "git":
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
            return f"git+file://{tmp_path}/queue{{}}.git"
    server: PostgresServer = request.getfixturevalue("server")
    return f"{server.url}?schema={request.function.__name__[-20:]}{{}}"


def init_git(url: str) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", url.removeprefix("git+file://")], check=True)


async def due(url: str) -> tuple[Queue, str]:
    """A queue with a schedule whose time was half an hour ago, and the id of the run that it is to have."""
    if url.startswith("git"):
        init_git(url)
    queue = await open_queue(url)
    state = keeping(queue)
    minute = datetime.fromtimestamp((await state.read_entries(NAMESPACE)).now - 1800, UTC).minute
    what = FromList(tuple(InputEntry(payload={"number": number}) for number in range(JOBS)))
    await define(state, "often", Schedule(when=Timetable(f"{minute} * * * *"), what=what, kind="page"))
    now, there = await schedule_of(state, "often")
    assert await put(state, there.note, msgspec.structs.replace(there.schedule, made=now - 3600))
    instant = msgspec.structs.replace(there.schedule, made=now - 3600).due(now)
    assert instant is not None
    return queue, run_id("often", instant)


async def look(urls: list[str], steps: list[int]) -> list[int]:
    """A process for each looks at its queue, all at the same instant, each until its step. What they ended with."""
    environment = {**os.environ, "PYTHONPATH": str(Path(dying.__file__).parent)}
    pipe = asyncio.subprocess.PIPE
    lookers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", VICTIM, url, f"w{number}", str(step), stdin=pipe, stdout=pipe, env=environment
        )
        for number, (url, step) in enumerate(zip(urls, steps, strict=True))
    ]
    for each in lookers:
        assert each.stdout is not None
        assert await each.stdout.readline() == b"ready\n"
    await asyncio.gather(*(each.communicate(b"go\n") for each in lookers))
    return [each.returncode or 0 for each in lookers]


async def had_one_run(queue: Queue, run: str) -> None:
    schedule = (await schedule_of(keeping(queue), "often"))[1].schedule
    assert (schedule.last_run, schedule.last_jobs, schedule.begun, schedule.trouble) == (run, JOBS, None, "")
    assert [(count.run, count.total) for count in await queue.stats()] == [(run, JOBS)]


@pytest.fixture
def heir(monkeypatch: pytest.MonkeyPatch) -> Callable[[Queue], ScheduleTrigger]:
    """Makes one who comes later, when everybody has been silent for long."""
    monkeypatch.setattr(trigger, "SILENT_SECONDS", 0.0)
    return lambda queue: ScheduleTrigger(queue, SystemClock(), "heir")


LAST_STEP = 18
"""What is due is read, said to begin, submitted in three batches between the begin and the end of a notice, read again
and said to be submitted: 9 calls."""


async def test_kill_9_before_and_after_every_call_leaves_one_run(
    place: str, heir: Callable[[Queue], ScheduleTrigger], long: bool
) -> None:
    if place.startswith("git") and not long:
        pytest.skip("takes long here; --long does it")
    steps = list(range(LAST_STEP + 1))
    urls = [place.format(step) for step in steps]
    queues = [await due(url) for url in urls]
    codes = await look(urls, steps)
    assert codes == [-signal.SIGKILL] * LAST_STEP + [0]
    for queue, run in queues:
        for _ in range(2):
            await heir(queue).look()
            await had_one_run(queue, run)
        await queue.close()


async def test_many_who_look_at_once_and_die_at_any_step_leave_one_run(
    place: str, heir: Callable[[Queue], ScheduleTrigger], long: bool
) -> None:
    chance = random.Random(7)
    for number in range(20 if long else 1):
        url = place.format(number)
        queue, run = await due(url)
        await look([url] * 4, [chance.randrange(LAST_STEP) for _ in range(4)])
        await heir(queue).look()
        await had_one_run(queue, run)
        await queue.close()
