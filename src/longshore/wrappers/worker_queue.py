"""The queue as everything that works on jobs must use it: timed, within the limits of each run, without paused runs.

    queue ◀── call timer ◀── run limits ◀── pause ◀── claim, settle

Whatever claims or settles in the place of a worker goes through this stack and never through the bare queue, which
would take jobs of a paused run and let a run grow beyond `--max-jobs` and `--max-depth`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from longshore.clock import Clock
from longshore.queue import Queue
from longshore.wrappers.call_timer import TimedQueue
from longshore.wrappers.growth_limits import GrowthLimitedQueue
from longshore.wrappers.paused import PausableQueue


@dataclass(frozen=True)
class WorkerQueue:
    """A queue with its wrappers."""

    queue: Queue
    """Claim from this one and settle on it. It can do all that the bare queue can."""
    timer: TimedQueue
    """Knows which calls wait for an answer."""
    limits: GrowthLimitedQueue
    """Drops follow-on jobs beyond the limits of their run. Call `tell` before the queue is closed."""


def worker_queue(queue: Queue, clock: Clock, *, same_worker: WorkerQueue | None = None) -> WorkerQueue:
    """Wrap a queue for a worker.

    `same_worker` is the first connection of a worker that opens a second one: both share their quota of new jobs.
    """
    timer = TimedQueue(queue, clock)
    holder = None if same_worker is None else same_worker.limits.holder
    limits = GrowthLimitedQueue(cast("Queue", timer), clock, holder=holder)
    return WorkerQueue(cast("Queue", PausableQueue(cast("Queue", limits), clock)), timer, limits)
