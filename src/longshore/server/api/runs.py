"""Runs: how far each is, what fails, when it will be done; pause and resume.

The figures are those of `longshore top` and of the web page, read by the one reader of the server: however often they
are asked for, the queue is read at most once in two seconds for each run.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError, UsageError
from longshore.media.http import wire
from longshore.queue import Count
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut
from longshore.runs.control.pause import EVERYTHING, pause, paused, resume
from longshore.runs.estimate.estimate import Estimate
from longshore.runs.estimate.throughput import ThroughputSpan
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.live.live_reader import LiveReader
from longshore.server.live.topics import Figures, open_topic, topic_name
from longshore.server.served import Served
from longshore.top.failures import FailureKind
from longshore.top.figures import LaneFigures
from longshore.top.hosts import HostRow
from longshore.top.workers import WorkerRow

_READ, _ADMIN = {SCOPE: (Scope.READ, Scope.WORK)}, {SCOPE: (Scope.ADMIN,)}
FiguresOfAll: TypeAlias = NamedDependency[LiveReader]
"""The value that the application hands to every route that has a parameter `reader`."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the list."""

    run: str
    count: Count
    """How many of its jobs are in which state."""
    per_second: float
    """Jobs finished a second, lately."""
    seconds_left: float | None
    """Until the rest is finished at this rate; null if that is not known."""
    estimate: Estimate | None
    """When it will be done; null if it is finished, or not estimated yet."""
    paused_since: float | None


class RunsAnswer(msgspec.Struct, frozen=True):
    runs: list[RunSummary]
    next: str | None = None
    """Send it as `after` for the next page; null on the last page."""


class RunDetail(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one run."""

    run: str
    at: float
    """When they were read, in seconds since 1970."""
    count: Count
    lanes: tuple[LaneFigures, ...]
    """The same by kind and partition."""
    per_second: float
    throughput: tuple[ThroughputSpan, ...]
    """The finished jobs over time, oldest first."""
    seconds_left: float | None
    estimate: Estimate | None
    being_submitted: bool
    paused_since: float | None
    """By the clock of the queue; null if neither the run nor everything is paused."""
    limits: GrowthLimits
    left_out: LeftOut
    """The follow-on jobs that the limits left out."""
    kinds_without_worker: tuple[str, ...]
    workers: tuple[WorkerRow, ...]
    hosts: tuple[HostRow, ...]
    """Those with the most jobs."""
    more_hosts: int
    """Hosts that are not listed, of the jobs that were read."""
    hosts_known: bool
    """Whether all pending jobs were read, so that the numbers of the hosts are exact."""
    failures: tuple[FailureKind, ...]
    """By kind, the most frequent first."""
    failures_known: bool
    """Whether all failed jobs were read."""


class PauseRequest(wire.ApiRequest, frozen=True, kw_only=True):
    """A run to pause or to resume; all runs, and those that come, with `everything`."""

    run: str | None = None
    everything: bool = False


class PauseAnswer(msgspec.Struct, frozen=True):
    changed: bool
    """False if it was so before."""


class RunRoutes(Controller):
    """The routes of runs."""

    path = "/runs"
    tags = ("runs",)

    @get("/", opt=_READ)
    async def runs(
        self,
        request: ApiCall,
        served: ServedQueue,
        reader: FiguresOfAll,
        after: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
    ) -> RunsAnswer:
        """Return a page of the runs, ordered by name."""
        name = topic_name(request.user)
        topic = reader.topic(name, lambda: open_topic(name, served.queue, request.user, served.clock))
        figures = _figures((await topic.at_once()).value)
        lanes = sorted(figures.board.lanes, key=lambda lane: lane.count.run)
        rest = [lane for lane in lanes if after is None or lane.count.run > after]
        held = figures.board.blockers.paused
        found = [
            RunSummary(
                run=lane.count.run,
                count=lane.count,
                per_second=lane.per_second,
                seconds_left=lane.left,
                estimate=figures.estimates.get(lane.count.run),
                paused_since=held.get(lane.count.run, held.get(EVERYTHING)),
            )
            for lane in rest[:limit]
        ]
        return RunsAnswer(found, found[-1].run if len(rest) > limit else None)

    @get("/details", opt=_READ)
    async def run(self, request: ApiCall, served: ServedQueue, reader: FiguresOfAll, run: FromQuery[str]) -> RunDetail:
        """Return all figures of one run."""
        name = topic_name(request.user, run=run)
        topic = reader.topic(name, lambda: open_topic(name, served.queue, request.user, served.clock))
        snapshot = await topic.at_once()
        figures = _figures(snapshot.value)
        board = figures.board
        held = board.blockers
        return RunDetail(
            run=run,
            at=snapshot.at,
            count=board.count,
            lanes=board.lanes,
            per_second=board.per_second,
            throughput=board.spans,
            seconds_left=board.left,
            estimate=board.estimate,
            being_submitted=board.being_submitted,
            paused_since=held.paused.get(run, held.paused.get(EVERYTHING)),
            limits=held.limits,
            left_out=held.left_out,
            kinds_without_worker=board.untaken,
            workers=board.workers,
            hosts=board.hosts,
            more_hosts=board.more_hosts,
            hosts_known=board.hosts_known,
            failures=board.failures,
            failures_known=board.failures_known,
        )

    @post("/pause", status_code=200, opt=_ADMIN)
    async def pause(self, data: Body[PauseRequest], served: ServedQueue) -> PauseAnswer:
        """Pause a run: workers finish what they have and begin no other job of it, within seconds."""
        run = _named(data)
        if run != EVERYTHING:
            await _check_run(served, run)
        return PauseAnswer(await pause(served.queue, run))

    @post("/resume", status_code=200, opt=_ADMIN)
    async def resume(self, data: Body[PauseRequest], served: ServedQueue) -> PauseAnswer:
        """Resume a run, or everything."""
        run = _named(data)
        if run != EVERYTHING and run not in await paused(served.queue):
            await _check_run(served, run)
        return PauseAnswer(await resume(served.queue, run))


def _figures(value: object) -> Figures:
    if not isinstance(value, Figures):
        raise TypeError(type(value).__name__)
    return value


def _named(data: PauseRequest) -> str:
    if (data.run is None) is not data.everything or data.run == EVERYTHING:
        raise UsageError("Name a run, or set `everything` to true.")
    return EVERYTHING if data.run is None else data.run


async def _check_run(served: Served, run: str) -> None:
    if not await served.queue.stats(run):
        raise NotFoundError(f"There is no run {ascii(run)[:60]}.")
