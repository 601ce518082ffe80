"""Schedules: a run for every time that is due, once, whoever dies and however many look."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from structlog.testing import capture_logs

from longshore.clock import ManualClock
from longshore.errors import InputFileError, NotFoundError, QueueUnavailableError, UsageError
from longshore.extensions.shared_state import StateEntry
from longshore.job import NewJob
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.queue import Submitted
from longshore.runs.control.growth_limits import GrowthLimits, limits_of
from longshore.runs.schedules.schedule import (
    KEPT_BYTES,
    NAMESPACE,
    SILENT_SECONDS,
    FromFile,
    FromList,
    FromScraper,
    Schedule,
    define,
    keeping,
    kept,
    put,
    remove,
    schedule_of,
    schedules,
)
from longshore.runs.schedules.timetable import Timetable
from longshore.runs.schedules.trigger import ScheduleTrigger
from longshore.runs.submit.input_files import InputEntry, InputFile, InputFormat

DAY = 86400.0
NIGHTLY = Timetable("0 2 * * *")


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


NOON = at("2026-11-16 12:00")


def a_list(count: int) -> FromList:
    return FromList(tuple(InputEntry(payload={"number": number}) for number in range(count)))


def nightly(count: int = 3) -> Schedule:
    return Schedule(when=NIGHTLY, what=a_list(count), kind="page")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def queue(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue(clock)


async def runs(queue: MemoryQueue) -> dict[str, int]:
    found: dict[str, int] = {}
    for count in await queue.stats():
        found[count.run] = found.get(count.run, 0) + count.total
    return found


def test_a_cron_line_is_read_in_its_zone() -> None:
    berlin = Timetable("0 2 * * *", "Europe/Berlin")
    assert berlin.after(NOON) == at("2026-11-17 01:00")
    assert berlin.last(0.0, NOON) == at("2026-11-16 01:00")


def test_a_time_that_summer_time_skips_comes_when_the_clock_goes_on() -> None:
    berlin = Timetable("30 2 * * *", "Europe/Berlin")
    spring = at("2026-03-29 03:00", "Europe/Berlin")
    assert berlin.after(at("2026-03-28 12:00")) == spring
    assert berlin.last(0.0, spring) == spring
    assert berlin.after(spring) == at("2026-03-30 02:30", "Europe/Berlin")


def test_a_time_that_comes_twice_counts_once() -> None:
    berlin = Timetable("30 2 * * *", "Europe/Berlin")
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    assert berlin.after(at("2026-10-24 12:00")) == first
    for minutes in range(0, 300, 7):
        assert berlin.last(0.0, first + 60 * minutes) == first
        assert berlin.last(first, first + 60 * minutes) is None
        assert berlin.after(first + 60 * minutes) == at("2026-10-26 02:30", "Europe/Berlin")


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 1-4 * * *", "15 */2 * * *"])
def test_looking_back_and_looking_ahead_agree_through_the_year(cron: str) -> None:
    table = Timetable(cron, "Europe/Berlin")
    for day in ("2026-03-28 22:00", "2026-10-24 22:00"):
        instant = at(day)
        until = instant + DAY / 3
        while instant < until:
            following = table.after(instant)
            assert table.last(instant, following) == following
            assert table.last(instant, following - 1) is None
            instant = following


@pytest.mark.parametrize(
    ("cron", "zone", "message"),
    [
        ("0 2 * *", "UTC", "takes five fields"),
        ("0 0 2 * * *", "UTC", "takes five fields"),
        ("0 25 * * *", "UTC", "Bad hour"),
        ("0 0 31 2 *", "UTC", "Bad day-of-month"),
        ("0 2 * * *", "Mars/Olympus", "no time zone 'Mars/Olympus'"),
        ("0 2 * * *", "../etc", "no time zone"),
    ],
)
def test_a_line_that_names_no_time_is_refused(cron: str, zone: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Timetable(cron, zone)


async def test_a_run_starts_when_its_time_has_come_and_not_again(queue: MemoryQueue, clock: ManualClock) -> None:
    await define(queue, "nightly", nightly())
    worker = ScheduleTrigger(queue, clock, "a")
    await worker.look()
    assert await runs(queue) == {}
    clock.advance(14 * 3600)
    await worker.look()
    assert await runs(queue) == {"nightly_20261117_020000": 3}
    for _ in range(3):
        clock.advance(3600)
        await worker.look()
    assert len(await runs(queue)) == 1
    _, there = await schedule_of(queue, "nightly")
    assert (there.schedule.last, there.schedule.last_run) == (at("2026-11-17 02:00"), "nightly_20261117_020000")
    assert (there.schedule.last_jobs, there.schedule.begun) == (3, None)
    clock.advance(DAY)
    await worker.look()
    assert await runs(queue) == {"nightly_20261117_020000": 3, "nightly_20261118_020000": 3}


async def test_of_the_times_that_nobody_was_there_for_the_last_is_made_up_for(
    queue: MemoryQueue, clock: ManualClock
) -> None:
    await define(queue, "nightly", nightly())
    clock.advance(10 * DAY)
    for _ in range(2):
        await ScheduleTrigger(queue, clock, "a").look()
    assert await runs(queue) == {"nightly_20261126_020000": 3}


async def test_the_next_look_is_no_later_than_the_next_run(queue: MemoryQueue, clock: ManualClock) -> None:
    worker = ScheduleTrigger(queue, clock, "a")
    assert await worker.look() == 10.0
    await define(queue, "nightly", nightly())
    clock.advance(14 * 3600 - 4)
    assert await worker.look() == 4.0


async def test_of_many_who_look_at_once_one_starts_the_run(queue: MemoryQueue, clock: ManualClock) -> None:
    submitted: list[Sequence[NewJob]] = []

    class Counting(MemoryQueue):
        async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
            submitted.append(jobs)
            return await super().submit(jobs)

    counting = Counting(clock)
    await define(counting, "nightly", nightly())
    clock.advance(DAY)
    await asyncio.gather(*(ScheduleTrigger(counting, clock, str(number)).look() for number in range(20)))
    assert len(submitted) == 1


async def test_what_a_worker_began_and_left_is_finished_by_another(
    queue: MemoryQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await define(queue, "nightly", nightly())
    clock.advance(DAY)
    submit, half_way = queue.submit, asyncio.Event()

    async def half(jobs: Sequence[NewJob]) -> Submitted:
        await submit(jobs[:1])
        half_way.set()
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(queue, "submit", half)
        dying = asyncio.ensure_future(ScheduleTrigger(queue, clock, "dies").look())
        await half_way.wait()
        dying.cancel()
        await asyncio.wait([dying])
    heir = ScheduleTrigger(queue, clock, "heir")
    await heir.look()
    assert await runs(queue) == {"nightly_20261117_020000": 1}, "it may still be at work"
    clock.advance(DAY)
    await heir.look()
    assert await runs(queue) == {"nightly_20261117_020000": 3}, "what was begun is finished, under its own name"
    await heir.look()
    assert await runs(queue) == {"nightly_20261117_020000": 3, "nightly_20261118_020000": 3}
    assert (await schedule_of(queue, "nightly"))[1].schedule.begun is None


class SlowNotes(MemoryQueue):
    """A queue whose notes are looked at once a minute."""

    traits = msgspec.structs.replace(MemoryQueue.traits, quick_shared_state=False)


@pytest.mark.parametrize(("medium", "missed"), [(MemoryQueue, 0), (SlowNotes, 1)])
@pytest.mark.parametrize("looks_late", [0, 7, 31, 53])
async def test_a_death_costs_a_schedule_of_every_minute_no_time_or_one(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, medium: type[MemoryQueue], missed: int, looks_late: int
) -> None:
    queue = medium(clock)
    await define(queue, "often", msgspec.structs.replace(nightly(), when=Timetable("* * * * *")))
    clock.advance(60)
    reached = asyncio.Event()

    async def never(jobs: Sequence[NewJob]) -> Submitted:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(queue, "submit", never)
        dying = asyncio.ensure_future(ScheduleTrigger(queue, clock, "dies").look())
        await reached.wait()
        dying.cancel()
        await asyncio.wait([dying])
    heir, until = ScheduleTrigger(queue, clock, "heir"), clock.now() + 599
    clock.advance(looks_late)
    while clock.now() < until:
        clock.advance(max(await heir.look(), 0.1))
    found = await runs(queue)
    assert 10 - missed <= len(found) <= 10
    assert set(found.values()) == {3}


async def test_a_queue_that_was_out_of_reach_is_gone_on_with_by_the_same_worker(
    queue: MemoryQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await define(queue, "nightly", nightly())
    clock.advance(DAY)
    worker = ScheduleTrigger(queue, clock, "a")

    async def unavailable(jobs: Sequence[NewJob]) -> Submitted:
        raise QueueUnavailableError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(queue, "submit", unavailable)
        with pytest.raises(QueueUnavailableError):
            await worker.look()
    await worker.look()
    assert await runs(queue) == {"nightly_20261117_020000": 3}


async def test_a_slow_worker_leaves_the_run_to_the_one_who_took_it_over(
    queue: MemoryQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await define(queue, "nightly", nightly())
    clock.advance(DAY)
    stuck = asyncio.Event()
    submit = queue.submit

    async def never(jobs: Sequence[NewJob]) -> Submitted:
        stuck.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(queue, "submit", never)
    slow = asyncio.ensure_future(ScheduleTrigger(queue, clock, "slow").look())
    await stuck.wait()
    monkeypatch.setattr(queue, "submit", submit)
    # Its signs do not arrive: the clock jumps over them.
    clock._elapsed += SILENT_SECONDS
    await ScheduleTrigger(queue, clock, "heir").look()
    assert await runs(queue) == {"nightly_20261117_020000": 3}
    clock.advance(0)
    await asyncio.wait_for(slow, 10)
    assert (await schedule_of(queue, "nightly"))[1].schedule.last == at("2026-11-17 02:00")


async def test_a_worker_that_takes_long_gives_signs_and_keeps_the_run(
    queue: MemoryQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await define(queue, "nightly", nightly())
    clock.advance(DAY)
    stuck, go = asyncio.Event(), asyncio.Event()
    submit = queue.submit

    async def slowly(jobs: Sequence[NewJob]) -> Submitted:
        stuck.set()
        await go.wait()
        return await submit(jobs)

    monkeypatch.setattr(queue, "submit", slowly)
    slow = asyncio.ensure_future(ScheduleTrigger(queue, clock, "slow").look())
    await stuck.wait()
    for _ in range(20):
        clock.advance(20)
        for _ in range(20):
            await asyncio.sleep(0)
    begun = (await schedule_of(queue, "nightly"))[1].schedule.begun
    assert begun is not None
    assert clock.now() - begun.seen < SILENT_SECONDS
    await ScheduleTrigger(queue, clock, "other").look()
    go.set()
    await slow
    assert (await runs(queue)) == {"nightly_20261117_020000": 3}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose longshore.toml names urls.txt."""
    (tmp_path / "pages.py").write_text("")
    (tmp_path / "longshore.toml").write_text('[scrapers.India]\nhandler = "pages.py"\nurls = "urls.txt"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("read_as", list(InputFormat))
async def test_a_queue_cannot_make_a_worker_read_a_file(
    registry: Path, queue: MemoryQueue, clock: ManualClock, read_as: InputFormat
) -> None:
    secret = registry / "secret.json"
    secret.write_text('{"private_key": "hunter2"}\n')
    await define(queue, "evil", Schedule(when=NIGHTLY, what=FromFile(str(secret), read_as), kind="page"))
    clock.advance(DAY)
    await ScheduleTrigger(queue, clock, "victim").look()
    assert await runs(queue) == {}
    with pytest.raises(NotFoundError, match="may not tell a worker which files to read"):
        await ScheduleTrigger(queue, clock, "victim").start_now("evil")
    assert "hunter2" not in repr(await queue.read_entries("schedules"))


async def test_a_file_is_read_anew_for_every_run(registry: Path, queue: MemoryQueue, clock: ManualClock) -> None:
    file = registry / "urls.txt"
    file.write_text("https://a.org/1\n")
    what = FromFile(str(file), InputFormat.URLS)
    await define(queue, "nightly", Schedule(when=NIGHTLY, what=what, kind="page", limits=GrowthLimits(max_depth=2)))
    worker = ScheduleTrigger(queue, clock, "a")
    clock.advance(DAY)
    await worker.look()
    file.write_text("https://a.org/1\nhttps://a.org/2\n")
    clock.advance(DAY)
    await worker.look()
    assert await runs(queue) == {"nightly_20261117_020000": 1, "nightly_20261118_020000": 2}
    assert await limits_of(queue, "nightly_20261118_020000") == GrowthLimits(max_depth=2)


async def test_a_file_that_is_elsewhere_is_left_to_the_workers_there(
    registry: Path, queue: MemoryQueue, clock: ManualClock
) -> None:
    file = registry / "urls.txt"
    await define(queue, "nightly", Schedule(when=NIGHTLY, what=FromFile(str(file), InputFormat.URLS), kind="page"))
    clock.advance(DAY)
    await ScheduleTrigger(queue, clock, "here").look()
    assert (await schedule_of(queue, "nightly"))[1].schedule.last is None
    file.write_text("https://a.org/1\n")
    await ScheduleTrigger(queue, clock, "there").look()
    assert await runs(queue) == {"nightly_20261117_020000": 1}


async def test_jobs_that_cannot_be_read_are_noted_and_the_next_time_tries_anew(
    registry: Path, queue: MemoryQueue, clock: ManualClock
) -> None:
    file = registry / "urls.txt"
    file.write_text("https://a.org/1\noops\n")
    await define(queue, "nightly", Schedule(when=NIGHTLY, what=FromFile(str(file), InputFormat.URLS), kind="page"))
    worker = ScheduleTrigger(queue, clock, "a")
    clock.advance(DAY)
    await worker.look()
    schedule = (await schedule_of(queue, "nightly"))[1].schedule
    assert schedule.trouble == "InputFileError; the log of a says why", "the queue must not show the line"
    assert (schedule.last, schedule.begun) == (at("2026-11-17 02:00"), None)
    assert await runs(queue) == {}
    with pytest.raises(InputFileError, match="line 2"):
        await worker.start_now("nightly")
    file.write_text("https://a.org/1\n")
    clock.advance(DAY)
    await worker.look()
    assert await runs(queue) == {"nightly_20261118_020000": 1}
    assert (await schedule_of(queue, "nightly"))[1].schedule.trouble == ""


async def test_a_scraper_is_found_in_the_registry_of_the_folder(
    tmp_path: Path, queue: MemoryQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await define(queue, "india", Schedule(when=NIGHTLY, what=FromScraper("India"), kind="page"))
    clock.advance(DAY)
    monkeypatch.chdir(tmp_path)
    worker = ScheduleTrigger(queue, clock, "a")
    await worker.look()
    assert await runs(queue) == {}
    (tmp_path / "pages.py").write_text("")
    (tmp_path / "urls.txt").write_text("https://a.org/1\nhttps://a.org/2\n")
    (tmp_path / "longshore.toml").write_text('[scrapers.India]\nhandler = "pages.py"\nurls = "urls.txt"\n')
    await worker.look()
    assert await runs(queue) == {"india_20261117_020000": 2}


async def test_a_run_that_is_asked_for_starts_at_once_and_the_times_stay(
    queue: MemoryQueue, clock: ManualClock
) -> None:
    await define(queue, "nightly", nightly())
    clock.advance(60)
    assert (await ScheduleTrigger(queue, clock, "a").start_now("nightly")).run_id == "nightly_20261116_120100"
    clock.advance(14 * 3600)
    await ScheduleTrigger(queue, clock, "a").look()
    assert await runs(queue) == {"nightly_20261116_120100": 3, "nightly_20261117_020000": 3}
    with pytest.raises(NotFoundError, match=r"no schedule 'daily'\. There are: nightly"):
        await ScheduleTrigger(queue, clock, "a").start_now("daily")


async def test_a_new_meaning_counts_from_now_on(queue: MemoryQueue, clock: ManualClock) -> None:
    await define(queue, "nightly", nightly())
    clock.advance(DAY)
    await ScheduleTrigger(queue, clock, "a").look()
    hourly = msgspec.structs.replace(nightly(5), when=Timetable("0 * * * *"))
    made = await define(queue, "nightly", hourly)
    assert made.last_run == "nightly_20261117_020000"
    await ScheduleTrigger(queue, clock, "a").look()
    assert len(await runs(queue)) == 1, "the hours before are none of its times"
    clock.advance(3600)
    await ScheduleTrigger(queue, clock, "a").look()
    assert (await runs(queue))["nightly_20261117_130000"] == 5


async def test_a_schedule_that_is_removed_starts_nothing(queue: MemoryQueue, clock: ManualClock) -> None:
    await define(queue, "nightly", nightly())
    await remove(queue, "nightly")
    clock.advance(DAY)
    await ScheduleTrigger(queue, clock, "a").look()
    assert await runs(queue) == {}
    with pytest.raises(NotFoundError, match="There are none"):
        await remove(queue, "nightly")


async def test_a_note_of_a_newer_version_spoils_nothing(queue: MemoryQueue, clock: ManualClock) -> None:
    await queue.swap_entries(NAMESPACE, [StateEntry("strange", "", {"when": "at dawn"}), StateEntry("odd", "", [1])])
    await define(queue, "nightly", nightly())
    clock.advance(DAY)
    await ScheduleTrigger(queue, clock, "a").look()
    assert list((await schedules(queue))[1]) == ["nightly"]
    assert len(await runs(queue)) == 1


def test_a_list_that_is_too_long_to_keep_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"https://a.org/{number}\n" for number in range(KEPT_BYTES // 20)))
    with pytest.raises(UsageError, match="more than 64 KB"):
        kept(InputFile(str(file), InputFormat.URLS))


@pytest.mark.parametrize("name", ["", "a b", "-x", "a/b", "x" * 81])
async def test_a_name_that_could_not_be_part_of_a_run_id_is_refused(queue: MemoryQueue, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a schedule"):
        await define(queue, name, nightly())


RACER = """
import asyncio, sys
from longshore.clock import SystemClock
from longshore.media import open_queue
from longshore.runs.schedules.trigger import ScheduleTrigger

async def main():
    queue = await open_queue(sys.argv[1])
    worker = ScheduleTrigger(queue, SystemClock(), sys.argv[2])
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    sys.stdin.readline()
    await worker.look()
    await queue.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("scheme", ["sqlite", "dir"])
async def test_two_processes_that_race_start_one_run(tmp_path: Path, scheme: str) -> None:
    url = f"sqlite:///{tmp_path / 'queue.db'}" if scheme == "sqlite" else f"dir://{tmp_path / 'queue'}"
    queue = await open_queue(url)
    state = keeping(queue)
    # Due half an hour ago, so that no other time comes while the two run.
    minute = datetime.fromtimestamp((await state.read_entries(NAMESPACE)).now - 1800, UTC).minute
    await define(state, "often", Schedule(when=Timetable(f"{minute} * * * *"), what=a_list(50), kind="page"))
    now, there = await schedule_of(state, "often")
    assert await put(state, there.note, msgspec.structs.replace(there.schedule, made=now - 3600))
    pipe = asyncio.subprocess.PIPE
    racers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", RACER, url, f"racer{number}", stdin=pipe, stdout=pipe, stderr=pipe
        )
        for number in range(2)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert await racer.stdout.readline() == b"ready\n"
    said = ""
    for out, err in await asyncio.gather(*(racer.communicate(b"go\n") for racer in racers)):
        said += out.decode() + err.decode()
    assert [racer.returncode for racer in racers] == [0, 0], said
    assert said.count("is due: submitting run") == 1
    _, there = await schedule_of(state, "often")
    assert [(count.run, count.total) for count in await queue.stats()] == [(there.schedule.last_run, 50)]
    await queue.close()


async def test_runs_that_started_while_the_clock_was_ahead_do_not_silence_the_schedule(
    queue: MemoryQueue, clock: ManualClock
) -> None:
    await define(queue, "often", msgspec.structs.replace(nightly(), when=Timetable("*/10 * * * *")))
    clock.step_wall(12 * 3600)
    worker = ScheduleTrigger(queue, clock, "a")
    await worker.look()
    early = set(await runs(queue))
    assert early == {"often_20261117_000000"}
    clock.step_wall(-12 * 3600)
    with capture_logs() as logs:
        await worker.look()
        await ScheduleTrigger(queue, clock, "b").look()
    assert [entry["event"] for entry in logs if "which is in the future" in entry["event"]] == [
        "Schedule often was handled up to 2026-11-17 00:00 UTC, which is in the future: a clock was wrong then, or is "
        "wrong now. Its times count from now on; a run that was started too early is not started again. Check the "
        "clocks of the machines and of the queue's server"
    ]
    clock.advance(600)
    await worker.look()
    assert set(await runs(queue)) - early == {"often_20261116_121000"}


async def test_a_machine_whose_clock_stays_ahead_does_not_make_runs_twice(
    queue: MemoryQueue, clock: ManualClock
) -> None:
    await define(queue, "nightly", nightly())
    right, ahead = ScheduleTrigger(queue, clock, "right"), ScheduleTrigger(queue, clock, "ahead")
    for _ in range(20):
        clock.step_wall(3600)
        await ahead.look()
        clock.step_wall(-3600)
        await right.look()
        await right.look()
        clock.advance(3600)
    assert await runs(queue) == {"nightly_20261117_020000": 3}
