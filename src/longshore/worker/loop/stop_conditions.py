"""When a worker ends by itself. A stop condition looks at a snapshot of the worker and gives a reason, or None.

    @stop_condition
    def enough_failures(snapshot):
        if snapshot.failed > 100:
            return "more than 100 attempts failed"

in the handler file adds a condition of the user's own.
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
    in_hand: int = 0
    """Jobs that are held: waiting here, under way, or not yet settled."""
    errors_in_a_row: int = 0
    empty_polls: int = 0
    """Looks for work in a row that found none, while nothing was in hand."""
    idle: timedelta = timedelta(0)
    """How long nothing has been in hand."""
    uptime: timedelta = timedelta(0)
    remaining: int | None = None
    """Jobs that are unfinished and could still come to this worker; None while that is not known."""
    left_to_others: int = 0
    """Unfinished jobs of the run that this worker has no handler for, or that are not of its partitions."""

    @property
    def ended(self) -> int:
        """Attempts that came to a verdict."""
        return self.completed + self.failed

    @cached_property
    def memory_percent(self) -> float:
        """How much of the machine's memory is in use. Measured when first asked for."""
        return health.memory_percent()


class StopCondition(Protocol):
    """Anything with this method is a stop condition."""

    def check(self, snapshot: Snapshot) -> str | None:
        """The reason to stop, in words a person understands, or None to go on."""


class MaxWork(msgspec.Struct, frozen=True):
    """Stop after so many attempts with a verdict. Exact: the worker never claims more than it may still finish."""

    limit: int

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.ended >= self.limit:
            return f"reached the limit of {self.limit:,} jobs"
        return None

    def room(self, snapshot: Snapshot) -> int:
        """How many more jobs may be claimed."""
        return max(0, self.limit - snapshot.ended - snapshot.in_hand)


class MaxEmptyPolls(msgspec.Struct, frozen=True):
    """Stop after so many looks in a row that found nothing."""

    limit: int

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.empty_polls >= self.limit:
            return f"no work in {self.limit} looks in a row"
        return None


class MaxIdle(msgspec.Struct, frozen=True):
    """Stop after so long without work."""

    limit: timedelta

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.idle >= self.limit:
            return f"no work for {spans(self.limit)}"
        return None


class RunFinished(msgspec.Struct, frozen=True):
    """Stop when nothing is left to come: of the run, or, without one, of the whole queue.

    Jobs held by other workers count, for they may come back or bring follow-on jobs. Pending jobs of other partitions
    do not keep it; nor do those of kinds it has no handler for, once nobody has touched them for a lease length.
    """

    run: str | None = None

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.remaining != 0 or snapshot.in_hand:
            return None
        what = f"run {self.run} is finished" if self.run else "every run is finished"
        if snapshot.left_to_others:
            return f"{what} for this worker; {snapshot.left_to_others:,} jobs wait for others (kinds or partitions)"
        return what


class MaxMemory(msgspec.Struct, frozen=True):
    """Stop when more than this share of the machine's memory is in use."""

    percent: float

    def check(self, snapshot: Snapshot) -> str | None:
        if snapshot.memory_percent > self.percent:
            return f"memory is {snapshot.memory_percent:.0f} % used, above the limit of {self.percent:.0f} %"
        return None


class UserStop:
    """A function of the user's own, made a stop condition by `@stop_condition`."""

    def __init__(self, function: Callable[[Snapshot], str | None]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, snapshot: Snapshot) -> str | None:
        return self.function(snapshot)

    def check(self, snapshot: Snapshot) -> str | None:
        reason: object = self.function(snapshot)
        if not reason:
            return None
        # People return True as well; then the function's name is all that can be said.
        return reason if isinstance(reason, str) else f"{getattr(self.function, '__name__', 'a condition')} says so"


def stop_condition(function: Callable[[Snapshot], str | None]) -> UserStop:
    """Make a function in the handler file a stop condition: it is given a `Snapshot` and returns a reason, or None."""
    return UserStop(function)


def stop_conditions_in(handler_file: Path) -> tuple[StopCondition, ...]:
    """The stop conditions a handler file declares. It must have been loaded."""
    origin = str(handler_file.resolve())
    found: list[Any] = []
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == origin:
            found += [value for value in vars(module).values() if isinstance(value, UserStop) and value not in found]
    return tuple(found)


def spans(*values: timedelta) -> str:
    """Spans as people say them, the last one deciding the unit: `0.1 of 2.0 h`, `4 of 60 s`."""
    unit, seconds = ("h", 3600) if values[-1] >= timedelta(minutes=6) else ("s", 1)
    digits = 1 if unit == "h" else 0
    return " of ".join(f"{value.total_seconds() / seconds:.{digits}f}" for value in values) + f" {unit}"
