"""Jobs that change queues: how one medium takes over what another knew. A medium that can says so in its traits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from longshore.job import Attempt, Job
from longshore.queue import Queue, Submitted


class Carried(msgspec.Struct, frozen=True):
    """A job as the queue it comes from knows it, with its history, oldest attempt first."""

    job: Job
    history: tuple[Attempt, ...] = ()


class TakesOver(Queue, Protocol):
    """A queue with the trait `takes_over`."""

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        """Add jobs as they are: state, epoch, attempts, instants, result, failure, history, parent and depth included.

        A job that was claimed arrives pending, for nobody holds it here; its epoch is kept, so that the next claim
        raises it. One that was pending keeps its `not_before`. The id is this queue's own, and age is the order given.
        Jobs whose (run, kind, key) is already known here, or that repeat within the batch, are left out and counted as
        duplicates; the job that is there is not changed. All or nothing, like everything in the contract.
        """
