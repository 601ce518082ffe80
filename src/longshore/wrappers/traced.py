"""A queue that tells what its calls did, for traces."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from longshore.job import NewJob
from longshore.lease import Lease, Want
from longshore.outcome import Settlement
from longshore.queue import Queue, Submitted
from longshore.wrappers.queue_wrapper import QueueWrapper


class CallTraces(Protocol):
    """The recipient. `began` is the start of the call, in nanoseconds since 1970."""

    def submitted(self, jobs: Sequence[NewJob], answer: Submitted, began: int) -> None:
        """Note the submission of jobs."""

    def claimed(self, leases: Sequence[Lease], began: int) -> None:
        """Note the claim of jobs, which are never none."""

    def settled(self, settlements: Sequence[Settlement], accepted: Sequence[bool], began: int) -> None:
        """Note the settlement of attempts."""


class TracedQueue(QueueWrapper):
    """A queue whose submissions, claims and settlements are traced. A call that fails is not."""

    def __init__(self, queue: Queue, traces: CallTraces) -> None:
        super().__init__(queue)
        self._traces = traces

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        began = time.time_ns()
        answer = await super().submit(jobs)
        self._traces.submitted(jobs, answer, began)
        return answer

    async def claim(self, want: Want) -> list[Lease]:
        began = time.time_ns()
        leases = await super().claim(want)
        if leases:
            self._traces.claimed(leases, began)
        return leases

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        began = time.time_ns()
        accepted = await super().settle(settlements)
        self._traces.settled(settlements, accepted, began)
        return accepted
