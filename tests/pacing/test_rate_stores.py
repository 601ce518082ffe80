"""Where the pace is shared: through the notes of a queue, or in a file of the machine (F4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.scrape.limited_site import JumpingClock, TokenBucket, ask_for_ever

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.extensions.presence import WorkerInfo
from longshore.extensions.shared_state import StateEntry
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.pacing.choose_store import rate_store_for
from longshore.pacing.host_rate import RatePolicy, unknown
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.machine_count import MachineCount
from longshore.pacing.store import LocalRateStore, RateStore
from longshore.pacing.store_machine import MachineRateStore, cache_file
from longshore.pacing.store_shared import CLOSED, PACE, SharedRateStore
from longshore.pacing.worker_limiter import WorkerLimiter


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture(params=["alone", "notes", "machine"])
def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[RateStore]:
    if request.param == "alone":
        yield LocalRateStore(clock)
    elif request.param == "notes":
        yield SharedRateStore(MemoryQueue(clock))
    else:
        with closing(MachineRateStore(tmp_path / "cache" / "pace.db", clock)) as in_file:
            yield in_file


async def test_what_was_never_written_is_not_there(store: RateStore, clock: ManualClock) -> None:
    kept = await store.read("a.org")
    assert (kept.now, kept.version, kept.host_rate) == (clock.now(), "", None)
    assert await store.all() == (clock.now(), {})


async def test_whoever_has_not_read_the_latest_writes_nothing(store: RateStore, clock: ManualClock) -> None:
    first = unknown(clock.now(), RatePolicy())
    second = msgspec.structs.replace(first, rate=5.0, plan=((1.0, 2.0),))
    version = await store.write("a.org", "", first)
    assert version
    assert await store.write("a.org", "", second) is None
    newer = await store.write("a.org", version, second)
    assert newer not in (None, version)
    assert await store.write("a.org", version, first) is None
    kept = await store.read("a.org")
    assert (kept.version, kept.host_rate) == (newer, second)
    assert (await store.all())[1] == {"a.org": second}


async def test_a_host_is_closed_until_the_latest_that_was_said_and_then_open(
    store: RateStore, clock: ManualClock
) -> None:
    begin = clock.now()
    await store.close_host("a.org", begin + 50)
    await store.close_host("a.org", begin + 20)
    await store.close_host("b.org", begin + 10)
    assert await store.closures() == (begin, {"a.org": begin + 50, "b.org": begin + 10})
    clock.advance(30)
    assert (await store.closures())[1] == {"a.org": begin + 50}
    clock.advance(30)
    assert (await store.closures())[1] == {}


async def test_hosts_that_never_refused_are_forgotten_and_the_others_are_not(
    store: RateStore, clock: ManualClock
) -> None:
    begin = clock.now()
    asked = msgspec.structs.replace(unknown(begin, RatePolicy()), next=begin + 1, answers=3)
    await store.write("asked.org", "", asked)
    await store.write("refused.org", "", msgspec.structs.replace(asked, refusals=1))
    await store.write("closed.org", "", msgspec.structs.replace(asked, refusals=1, closed_until=begin + 9 * 86400))
    assert await store.forget() == 0
    clock.advance(3600)
    await store.write("new.org", "", msgspec.structs.replace(asked, next=clock.now()))
    assert await store.forget() == 1
    assert (await store.all())[1].keys() == {"refused.org", "closed.org", "new.org"}
    clock.advance(8 * 86400)
    assert await store.forget() == 2
    assert (await store.all())[1].keys() == {"closed.org"}


async def test_whoever_still_knows_a_host_that_was_forgotten_goes_on_with_what_he_knows(
    store: RateStore, clock: JumpingClock
) -> None:
    old, young = LearnedLimiter(store, clock), LearnedLimiter(store, clock)
    site = TokenBucket(clock, 1000, 1000)
    asking = [asyncio.ensure_future(ask_for_ever(site, old, 0.05)) for _ in range(8)]
    await clock.run(10)
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await clock.run(1000)
    learned = (await store.all())[1]["a.org"].rate
    assert await store.forget() == 1
    # Neither writes over the other: a version never comes back.
    for pace in (young, old, young):
        going = asyncio.ensure_future(pace.slot("a.org", patience=60.0))
        await clock.run(clock.monotonic() + 5)
        await going
        pace.answered("a.org", "", 200, None, 0.05)
        await clock.run(clock.monotonic() + 5)
    known = (await store.all())[1]["a.org"]
    assert known.answers == 3
    assert known.rate < learned
    for pace in (old, young):
        await pace.close()


async def test_all_workers_together_look_now_and_then_what_may_be_forgotten(clock: ManualClock) -> None:
    queue = MemoryQueue(clock)
    one, other = SharedRateStore(queue), SharedRateStore(queue)
    await one.forget()
    await one.write("a.org", "", unknown(clock.now() - 3600, RatePolicy()))
    assert await other.forget() == 0
    clock.advance(600)
    assert await other.forget() == 1


async def test_a_worker_forgets_hosts(clock: JumpingClock) -> None:
    queue = MemoryQueue(clock)
    await SharedRateStore(queue).write("a.org", "", unknown(clock.now() - 3600, RatePolicy()))
    pace = WorkerLimiter(RatePolicy(), queue, clock)
    keeping = asyncio.ensure_future(pace.keep())
    await clock.run(1)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await pace.close()
    assert (await queue.read_entries(PACE)).entries == ()


async def test_two_processes_share_a_limit_through_it(store: RateStore, clock: JumpingClock) -> None:
    site = TokenBucket(clock, 20, 5)
    paces = [LearnedLimiter(store, clock) for _ in range(2)]
    asking = [asyncio.ensure_future(ask_for_ever(site, pace, 0.05)) for pace in paces for _ in range(8)]
    await clock.run(50)
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    for pace in paces:
        await pace.close()
    assert site.share(since=20) >= 0.95
    assert site.refused <= 0.015 * len(site.answers)


async def test_closures_that_are_over_are_taken_off_the_notes(clock: ManualClock) -> None:
    queue = MemoryQueue(clock)
    store = SharedRateStore(queue)
    await store.close_host("a.org", clock.now() + 5)
    clock.advance(10)
    await store.closures()
    assert (await queue.read_entries(CLOSED)).entries == ()


async def test_a_note_that_cannot_be_read_is_learned_anew(clock: ManualClock) -> None:
    queue = MemoryQueue(clock)
    await queue.swap_entries(PACE, [StateEntry("a.org", "", {"rate": "quick"})])
    store = SharedRateStore(queue)
    kept = await store.read("a.org")
    assert kept.host_rate is None
    assert await store.write("a.org", kept.version, unknown(clock.now(), RatePolicy()))


async def test_a_file_that_cannot_be_used_is_named(clock: ManualClock, tmp_path: Path) -> None:
    (tmp_path / "pace.db").write_text("this is no database, and long enough to be seen as none" * 20)
    with pytest.raises(QueueUnavailableError, match=r"pace\.db.*may be deleted"):
        await MachineRateStore(tmp_path / "pace.db", clock).read("a.org")


async def test_the_queue_is_used_where_it_is_quick_and_else_a_file(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    queue = MemoryQueue(clock)
    assert isinstance(rate_store_for(queue, clock), SharedRateStore)
    queue.traits = msgspec.structs.replace(queue.traits, quick_shared_state=False)
    assert isinstance(rate_store_for(queue, clock), MachineRateStore)
    assert cache_file() == tmp_path / "longshore" / "pace.db"


async def test_machines_are_counted_on_the_roll(clock: JumpingClock) -> None:
    queue = MemoryQueue(clock)
    machines = MachineCount(queue, clock)
    assert machines() == 1
    for number, machine in enumerate(["ash", "ash", "oak"]):
        await queue.register(WorkerId.new(f"w{number}"), timedelta(minutes=5), WorkerInfo(machine=machine))
    await queue.register(WorkerId.new("silent"), timedelta(minutes=5), WorkerInfo())
    keeping = asyncio.ensure_future(machines.keep())
    await clock.run(1)
    keeping.cancel()
    assert machines() == 2
