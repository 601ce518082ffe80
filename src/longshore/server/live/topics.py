"""The topics that people watch: the whole queue, one run, one job. Each reads the queue through the model of `top`."""

from __future__ import annotations

from typing import Protocol

import msgspec

from longshore.clock import Clock
from longshore.errors import NotFoundError
from longshore.queue import Queue
from longshore.runs.control.pause import EVERYTHING
from longshore.runs.estimate.estimate import Estimate
from longshore.runs.estimate.forecast import Forecast
from longshore.server.auth.access import Access
from longshore.server.auth.reached_queue import reached
from longshore.top.figures import FiguresReader, QueueFigures
from longshore.top.find_jobs import Detail, detail_of

FORECASTS = 20
"""Runs of the overview whose end is estimated: the first ones that are not finished."""


class TopicName(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, for all keys that reach the same. Two viewers with equal names share one reader."""

    run: str | None = None
    job: str | None = None
    runs: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None


class Figures(msgspec.Struct, frozen=True):
    """The figures of a queue or a run, and when its runs will be done."""

    board: QueueFigures
    estimates: dict[str, Estimate]
    """By run; of the runs of the overview only some."""


class Topic(Protocol):
    """Something that is looked at again and again."""

    async def look(self, *, quick: bool = False) -> Figures | Detail:
        """Return how it is now. With `quick`, only what the queue knows at once."""

    def expire(self) -> None:
        """Let the next look read everything again: a person has just changed something."""


class QueueTopic:
    """All runs within reach of a key, with estimates for those that come first. Each look estimates one run."""

    def __init__(self, queue: Queue, access: Access, clock: Clock) -> None:
        self._queue = reached(queue, access)
        self._access = access
        self._clock = clock
        self._reader = FiguresReader(self._queue, None, clock)
        self._forecasts: dict[str, Forecast] = {}
        self._estimates: dict[str, Estimate] = {}

    async def look(self, *, quick: bool = False) -> Figures:
        """See `Topic`."""
        board = await self._reader.look(deep=not quick)
        if not quick:
            await self._estimate_next(board)
        return Figures(_within_reach(board, self._access), dict(self._estimates))

    def expire(self) -> None:
        """See `Topic`."""
        self._reader.expire()

    async def _estimate_next(self, board: QueueFigures) -> None:
        shown = [lane.count.run for lane in board.lanes if lane.count.remaining][:FORECASTS]
        for gone in self._forecasts.keys() - set(shown):
            del self._forecasts[gone]
            self._estimates.pop(gone, None)
        # The run whose turn is longest ago is the first in the dictionary; a new run comes before all.
        run = next((run for run in shown if run not in self._forecasts), next(iter(self._forecasts), None))
        if run is None:
            return
        forecast = self._forecasts.pop(run, None) or Forecast(self._queue, run, self._clock)
        self._forecasts[run] = forecast
        try:
            self._estimates[run] = (await forecast.look()).estimate
        except NotFoundError:
            self._estimates.pop(run, None)  # pruned since the counts were read


class RunTopic:
    """One run."""

    def __init__(self, queue: Queue, access: Access, run: str, clock: Clock) -> None:
        self._run = run
        self._access = access
        self._reader = FiguresReader(reached(queue, access), run, clock)

    async def look(self, *, quick: bool = False) -> Figures:
        """See `Topic`."""
        board = _within_reach(await self._reader.look(deep=not quick), self._access)
        return Figures(board, {} if board.estimate is None else {self._run: board.estimate})

    def expire(self) -> None:
        """See `Topic`."""
        self._reader.expire()


class JobTopic:
    """One job and its attempts."""

    def __init__(self, queue: Queue, access: Access, job_id: str) -> None:
        self._queue = reached(queue, access)
        self._job_id = job_id

    async def look(self, *, quick: bool = False) -> Detail:
        """See `Topic`."""
        del quick
        return await detail_of(self._queue, self._job_id)

    def expire(self) -> None:
        """See `Topic`. Nothing is kept between two looks."""


def topic_name(access: Access, *, run: str | None = None, job: str | None = None) -> TopicName:
    """Return the name of a topic for viewers with this access."""
    return TopicName(run=run, job=job, runs=access.key.runs, kinds=access.key.kinds)


def open_topic(name: TopicName, queue: Queue, access: Access, clock: Clock) -> Topic:
    """Return a new reader of the topic with this name."""
    if name.job is not None:
        return JobTopic(queue, access, name.job)
    return QueueTopic(queue, access, clock) if name.run is None else RunTopic(queue, access, name.run, clock)


def _within_reach(board: QueueFigures, access: Access) -> QueueFigures:
    """Return the figures without pauses and duplicates of runs that the key does not reach."""
    runs = access.key.runs
    if runs is None:
        return board
    held = board.blockers
    paused = {run: since for run, since in held.paused.items() if run == EVERYTHING or run in runs}
    differing = {run: each for run, each in held.differing.items() if run in runs}
    blockers = msgspec.structs.replace(held, paused=paused, differing=differing)
    return msgspec.structs.replace(board, blockers=blockers)
