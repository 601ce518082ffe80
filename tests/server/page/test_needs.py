"""What needs a person: each line at the top of the page, and none without a reason."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import msgspec
from tests.server.page.conftest import Visitor

from longshore.clock import ManualClock
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.shared_state import SharedState, StateEntry
from longshore.job import new_job
from longshore.lease import WorkerId
from longshore.pacing.host_rate import HostRate
from longshore.pacing.store_shared import PACE
from longshore.runs.control.pause import EVERYTHING, pause
from longshore.scrape.proxies.counters import HostCounters, ProxyCounters
from longshore.scrape.proxies.status_file import ProxyStatusFile
from longshore.server.live.needs import STALLED_SECONDS, Need, needs_of
from longshore.server.live.proxy_rest import ProxyRest
from longshore.server.live.topics import Figures
from longshore.top.figures import FiguresReader
from longshore.wrappers.differing_duplicates import DifferingDuplicates, DifferingKind, add_differing


async def _needs(visitor: Visitor, reader: FiguresReader | None = None) -> list[Need]:
    served = visitor.api.served
    board = await (reader or FiguresReader(served.queue, None, served.clock)).look()
    return needs_of(Figures(board, {}))


async def _worker(visitor: Visitor, *kinds: str) -> None:
    registry = require(visitor.api.served.queue, WorkerRegistry, "lacks it")
    await registry.register(WorkerId("w", "w"), timedelta(hours=9), WorkerInfo(kinds=kinds, slots=1, busy=0))


async def test_a_queue_that_is_worked_on_needs_no_person(visitor: Visitor) -> None:
    assert await _needs(visitor) == []
    await visitor.api.submit("a")
    await _worker(visitor, "page")
    assert await _needs(visitor) == []


async def test_jobs_without_any_worker_need_one(visitor: Visitor) -> None:
    await visitor.api.submit("a", "b")
    (need,) = await _needs(visitor)
    assert (need.sort, need.kind, need.jobs) == ("no worker", "", 2)


async def test_a_kind_that_no_worker_takes_needs_one(visitor: Visitor) -> None:
    await visitor.api.submit("a", kind="pdf")
    await _worker(visitor, "page")
    (need,) = await _needs(visitor)
    assert (need.sort, need.kind) == ("no worker", "pdf")


async def test_a_paused_run_with_jobs_left_is_named_and_needs_no_worker(visitor: Visitor) -> None:
    await visitor.api.submit("a", run="held")
    await pause(visitor.api.served.queue, "held")
    await pause(visitor.api.served.queue, "empty")
    assert [(need.sort, need.run) for need in await _needs(visitor)] == [("paused", "held")]


async def test_a_pause_of_everything_is_told_once(visitor: Visitor) -> None:
    await visitor.api.submit("a", run="held")
    await pause(visitor.api.served.queue, EVERYTHING)
    assert [(need.sort, need.run) for need in await _needs(visitor)] == [("paused", EVERYTHING)]


async def test_jobs_left_out_as_duplicates_are_told_with_the_fields_that_differ_and_the_fix(visitor: Visitor) -> None:
    await visitor.api.submit("a")
    await _worker(visitor, "page")
    state = require(visitor.api.served.queue, SharedState, "lacks it")
    left_out = DifferingKind(jobs=4, fields={"page": 4, "<b>sort": 1})
    await add_differing(state, "r", DifferingDuplicates(kinds={"page": left_out}))
    (need,) = await _needs(visitor)
    assert (need.sort, need.run, need.jobs) == ("left out", "r", 4)
    await visitor.log_in()
    (line,) = (await visitor.get("/")).page.css(".needs li")
    told = " ".join(line.text().split())
    assert "4 jobs of r were left out as duplicates, although their payloads differ." in told
    assert "differ in: page, <b>sort" in told
    assert '@handler("page", identity=("url", "page", "<b>sort"))' in told


async def test_a_closed_host_is_told_with_its_reason_and_its_jobs(visitor: Visitor) -> None:
    queue = visitor.api.served.queue
    await queue.submit([new_job("page", {"url": "https://shop.test/1"}, run="r")])
    await _worker(visitor, "page")
    state = require(queue, SharedState, "lacks it")
    now = (await state.read_entries(PACE)).now
    rate = HostRate(rate=1.0, grown_at=now, closed_until=now + 60, why="it answered 403")
    await state.swap_entries(PACE, [StateEntry("shop.test", "", msgspec.to_builtins(rate))])
    (need,) = await _needs(visitor)
    assert (need.sort, need.host, need.jobs, need.why) == ("host closed", "shop.test", 1, "it answered 403")


async def test_workers_that_finish_nothing_for_minutes_are_stalled(visitor: Visitor) -> None:
    served = visitor.api.served
    await visitor.api.submit("a")
    await _worker(visitor, "page")
    reader = FiguresReader(served.queue, None, served.clock)
    assert await _needs(visitor, reader) == []
    served.clock.advance(STALLED_SECONDS + 1)  # type: ignore[attr-defined]
    assert [need.sort for need in await _needs(visitor, reader)] == ["stalled"]


def test_all_proxies_rest_only_if_none_is_left_at_a_host(tmp_path: Path) -> None:
    clock = ManualClock()

    def write(pid: int = os.getpid(), **states: str) -> str:
        counters = tuple(
            ProxyCounters(
                proxy=f"http://{name}:1",
                requests=3,
                succeeded=0,
                failed=3,
                places=(HostCounters(host="a.test", state=state, requests=3, failed=3, until=clock.now() + 99),),
            )
            for name, state in states.items()
        )
        file = ProxyStatusFile(worker="w", pid=pid, at=clock.now(), counters=counters)
        (tmp_path / "w.json").write_bytes(msgspec.json.encode(file))
        return ProxyRest(tmp_path, clock).words()

    assert ProxyRest(tmp_path / "none", clock).words() == ""
    assert write(one="resting", two="serving") == ""
    assert write(one="resting", two="resting") == "All 2 proxies rest at a.test."
    assert write(2**22 + 1, one="resting", two="resting") == "", "the worker has ended"
