"""The queue that everything working on jobs must use: timed, within the growth limits, without paused runs.

    medium ◀── call timer ◀── growth limits ◀── pause ◀── claim, settle

Everything that claims or settles for a worker goes through this stack. On the bare queue it would take jobs of a paused
run, and let a run grow beyond `--max-jobs` and `--max-depth`.
"""

from __future__ import annotations

from dataclasses import dataclass

from longshore.clock import Clock
from longshore.queue import Queue
from longshore.wrappers.call_timer import TimedQueue
from longshore.wrappers.growth_limits import GrowthLimitedQueue
from longshore.wrappers.paused import PausableQueue


@dataclass(frozen=True)
class WorkerQueue:
    """A queue with the wrappers of a worker."""

    queue: PausableQueue
    """The outermost wrapper: claim from it and settle on it."""
    timer: TimedQueue
    """Knows which calls have no answer yet."""
    limits: GrowthLimitedQueue
    """Drops follow-on jobs beyond the limits of their run. Call `tell` before the queue is closed."""


def worker_queue(queue: Queue, clock: Clock, *, same_worker: WorkerQueue | None = None) -> WorkerQueue:
    """Return `queue` wrapped for a worker.

    `same_worker` is the first connection of a worker that opens a second one: both share their quota of new jobs.
    """
    timer = TimedQueue(queue, clock)
    holder = None if same_worker is None else same_worker.limits.holder
    limits = GrowthLimitedQueue(timer, clock, holder=holder)
    return WorkerQueue(PausableQueue(limits, clock), timer, limits)
