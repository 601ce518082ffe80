"""Why the worker ends, how soon, and with which exit code.

The first reason counts: it drains the worker. A failure that comes later changes the exit code, and is logged too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from longshore.errors import PassingQueueError, QueueUnavailableError
from longshore.extensions.worker_orders import WorkerOrder
from longshore.worker.context import WorkerContext
from longshore.worker.status.counters import Exit

LEAVE_SECONDS = 5.0
"""The time limit of each step when the worker leaves at once."""


class Shutdown:
    """The decision to end one worker: its reason, its urgency and its exit code."""

    def __init__(self, context: WorkerContext) -> None:
        self._reporter = context.reporter
        self._in_flight = context.in_flight
        self._lease_seconds = context.config.lease.total_seconds()
        self._failure = ""
        self.reason = ""
        self.code = Exit.OK
        self.stopping = asyncio.Event()
        """Set when nothing more is to be claimed."""
        self.at_once = asyncio.Event()
        """Set by the second signal: attempts under way are ended too."""

    def stop(self, reason: str) -> None:
        """Drain, for this reason."""
        self._stop(reason, self._reporter.stopping)

    def fail(self, reason: str) -> None:
        """Drain, because the worker cannot go on."""
        if self.code is Exit.OK:
            self.code = Exit.FAILED
        if reason == self._failure:
            return
        self._failure = reason
        if self.stopping.is_set():
            # The worker stops for another reason already; this one explains its exit code.
            self._reporter.failed_while_stopping(reason)
        else:
            self._stop(reason, self._reporter.stopping_in_failure)

    def signalled(self, name: str, count: int) -> None:
        """Act on the signal `name`, the `count`th that came: drain at the first, leave at once at the second."""
        if count == 1:
            self.stop(f"{name} received; {self._what_is_left}")
            self._reporter.hint("Send the signal once more to give these jobs back and leave at once")
        elif not self.at_once.is_set():
            self.code = Exit.INTERRUPTED
            self.reason = f"{name} received twice; all jobs in flight are given back"
            self.stopping.set()
            self.at_once.set()
            self._reporter.stopping(self.reason)

    def ordered(self, order: WorkerOrder) -> None:
        """Obey an order that a person gave through the queue. It is a success: no supervisor restarts the worker."""
        if order is WorkerOrder.DRAIN:
            self.stop(f"asked to drain; {self._what_is_left}")
        elif not self.at_once.is_set():
            self.reason = "asked to stop; all jobs in flight are given back"
            self.stopping.set()
            self.at_once.set()
            self._reporter.stopping(self.reason)

    def replaced(self, what: str) -> None:
        """Drain, because the queue has another version of the code; the exit code tells the process that started us."""
        if not self.stopping.is_set():
            self.code = Exit.REPLACED
            self.stop(f"{what}; {self._what_is_left}")

    def terminal_gone(self) -> None:
        """Drain, because the terminal of the worker was closed."""
        self.stop(f"the terminal was closed; {self._what_is_left}")

    def patience(self, error: PassingQueueError) -> float:
        """Return how many seconds the queue may fail with `error` before the worker gives up.

        While it runs, any time if the queue does not answer. A lease length for trouble that may need a person, and for
        all trouble while it drains: afterwards its jobs may be with other workers. `LEAVE_SECONDS` when it leaves at
        once.
        """
        if self.at_once.is_set():
            return LEAVE_SECONDS
        if isinstance(error, QueueUnavailableError) and not self.stopping.is_set():
            return math.inf
        return self._lease_seconds

    def _stop(self, reason: str, report: Callable[[str], None]) -> None:
        if not self.stopping.is_set():
            self.reason = reason
            # Before the log line: a log that cannot be written must not keep the worker from stopping.
            self.stopping.set()
            report(reason)

    @property
    def _what_is_left(self) -> str:
        waiting = self._in_flight.pending.count
        outcomes = "1 outcome waits" if waiting == 1 else f"{waiting:,} outcomes wait"
        under_way = self._in_flight.leases.under_way
        jobs = "1 job" if under_way == 1 else f"{under_way} jobs"
        return f"finishing {jobs} under way" + (f", {outcomes} to be written" if waiting else "")
