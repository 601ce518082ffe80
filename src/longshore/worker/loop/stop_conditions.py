"""Stop conditions: when a worker ends by itself. Each looks at a snapshot of the worker and returns a reason, or None.

    @stop_condition
    def enough_failures(snapshot):
        if snapshot.failed > 100:
            return "more than 100 attempts failed"

in the handler file adds a condition of the user.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec

from longshore.observe import health


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The worker as its stop conditions see it."""

    claimed: int = 0
    completed: int = 0
    failed: int = 0
    """Attempts that failed, whether their job is tried again or not."""
    retried: int = 0
    """Those of them whose job is tried again."""
    in_hand: int = 0
    """Jobs in flight: ready, under way, or not yet settled."""
    errors_in_a_row: int = 0
    empty_polls: int = 0
    """Looks for work in a row that found none, or got no answer, while nothing was in flight."""
    idle: timedelta = timedelta(0)
    """How long nothing has been in flight."""
    uptime: timedelta = timedelta(0)
    remaining: int | None = None
    """Unfinished jobs that could still come to this worker; None if that is not known."""
    left_to_others: int = 0
    """Unfinished jobs of the run that this worker has no handler for, or that are not of its partitions."""
    being_submitted: bool = False
    """Whether jobs are being added to the run; looked up only if no job remains."""

    @property
    def ended(self) -> int:
        """Attempts that completed or failed."""
        return self.completed + self.failed

    @property
    def finished(self) -> int:
        """Jobs that completed or failed for good."""
        return self.ended - self.retried

    @cached_property
    def memory_percent(self) -> float:
        """The percentage of the machine's memory in use. Measured at the first access."""
        return health.memory_percent()


class StopCondition(Protocol):
    """A reason to stop a worker; any object with this method is one."""

    def check(self, snapshot: Snapshot) -> str | None:
        """Return the reason to stop, in words a person understands, or None to go on."""


class MaxWork(msgspec.Struct, frozen=True):
    """Stop after exactly `limit` jobs that completed or failed for good: no job is claimed beyond that.

    An attempt whose job is tried again does not count: one job that fails three times is one job.
    """

    limit: int

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.finished >= self.limit:
            return f"reached the limit of {self.limit:,} jobs"
        return None

    def left(self, snapshot: Snapshot) -> int:
        """Return how many more jobs may be claimed."""
        return max(0, self.limit - snapshot.finished - snapshot.in_hand)


class MaxEmptyPolls(msgspec.Struct, frozen=True):
    """Stop after `limit` looks for work in a row that found none."""

    limit: int

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.empty_polls >= self.limit:
            return f"no work in {self.limit} looks in a row"
        return None


class MaxIdle(msgspec.Struct, frozen=True):
    """Stop after `limit` without work."""

    limit: timedelta

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.idle >= self.limit:
            return f"no work for {spans(self.limit)}"
        return None


class RunFinished(msgspec.Struct, frozen=True):
    """Stop when no job is left for this worker in the run; without a run, in the whole queue.

    Jobs held by other workers count, because they may come back or bring follow-on jobs. Pending jobs of other
    partitions do not count, nor do those of runs that are pinned to another version of the handlers. Pending jobs of
    kinds without a handler here count until their number has not changed for a lease length. A run to which jobs are
    being submitted is not finished.
    """

    run: str | None = None

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.remaining != 0 or snapshot.in_hand or snapshot.being_submitted:
            return None
        what = f"run {self.run} is finished" if self.run else "every run is finished"
        if snapshot.left_to_others:
            others = f"{snapshot.left_to_others:,} jobs wait for others (kinds, partitions or versions)"
            return f"{what} for this worker; {others}"
        return what


class MaxMemory(msgspec.Struct, frozen=True):
    """Stop when more than `percent` of the machine's memory is in use."""

    percent: float

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.memory_percent > self.percent:
            return f"memory is {snapshot.memory_percent:.0f} % used, above the limit of {self.percent:.0f} %"
        return None


class UserStop:
    """A function that `@stop_condition` made a stop condition."""

    def __init__(self, function: Callable[[Snapshot], str | None]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, snapshot: Snapshot) -> str | None:
        return self.function(snapshot)

    def check(self, snapshot: Snapshot) -> str | None:
        reason: object = self.function(snapshot)
        if not reason:
            return None
        # People also return True; then the reason can only name the function.
        return reason if isinstance(reason, str) else f"{getattr(self.function, '__name__', 'a condition')} says so"


def stop_condition(function: Callable[[Snapshot], str | None]) -> UserStop:
    """Make a function in the handler file a stop condition. It takes a `Snapshot` and returns a reason, or None."""
    return UserStop(function)


def stop_conditions_in(handler_file: Path) -> tuple[StopCondition, ...]:
    """Return the stop conditions that a handler file declares. The file must have been loaded."""
    origin = str(handler_file.resolve())
    found: list[Any] = []
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == origin:
            found += [value for value in vars(module).values() if isinstance(value, UserStop) and value not in found]
    return tuple(found)


def out_of_reach(reason: str, error: str) -> str:
    """Return the reason to stop of a worker that found no work because its queue does not answer."""
    return f"{reason}: the queue is out of reach ({error})"


def spans(*values: timedelta) -> str:
    """Return durations as text; the last one decides the unit: `0.1 of 2.0 h`, `4 of 60 s`."""
    unit, seconds = ("h", 3600) if values[-1] >= timedelta(minutes=6) else ("s", 1)
    digits = 1 if unit == "h" else 0
    return " of ".join(f"{value.total_seconds() / seconds:.{digits}f}" for value in values) + f" {unit}"
