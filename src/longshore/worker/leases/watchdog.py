"""The watchdog: ends the worker if its event loop cannot end an attempt that is past its timeout.

It runs in the renewal thread, the only one that still runs then. It settles what can be settled, gives back the rest,
and ends the process. A handler that blocks every thread (C code that holds the interpreter's lock) stops the watchdog
too; then the guardian process, which gets no heartbeat any more, kills the worker.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from longshore.errors import TimedOutError
from longshore.handlers.handler import Handler
from longshore.handlers.result import outcome_of_error
from longshore.outcome import Released, Settlement
from longshore.worker.children.child_pool import ChildPool
from longshore.worker.context import WorkerContext
from longshore.worker.loop.executor import Executor
from longshore.worker.loop.settlement_writer import SettlementWriter
from longshore.worker.status.counters import Exit

_CHECK_SECONDS = 0.5
_BEAT_SECONDS = 2.0
_GRACE_SECONDS = 2.0
"""How far past its timeout an attempt may be, while the loop does not answer, before the worker leaves."""
_STUBBORN_SECONDS = 15.0
"""The same for an attempt that ignores being cancelled while the loop does answer: it may be cleaning up."""
_LEAVE_SECONDS = 10.0
_GUARDIAN_GRACE_SECONDS = 5.0

log = structlog.get_logger()


class Watchdog:
    """Watches the worker's event loop from another thread. Made in the loop that it watches."""

    def __init__(
        self,
        context: WorkerContext,
        handlers: Iterable[Handler],
        executors: Sequence[Executor],
        children: ChildPool,
        signals: Callable[[], int],
    ) -> None:
        """`executors` is read while it changes; `signals` returns how many signals have come."""
        self._in_flight = context.in_flight
        self._executors = executors
        self._children = children
        self._signals = signals
        lease = context.config.lease.total_seconds()
        timeouts = [handler.timeout.total_seconds() + _GRACE_SECONDS for handler in handlers if handler.is_async]
        self._silence = min(lease, max(timeouts, default=lease)) + _GUARDIAN_GRACE_SECONDS
        """Seconds without a heartbeat after which the guardian kills the worker."""
        self._loop = asyncio.get_running_loop()
        self._loop_answered = time.monotonic()

    def beat(self) -> None:
        """Tell the guardian that the worker is alive."""
        self._children.guardian.say(f"beat {self._silence:.1f}")

    async def run(self, writer: SettlementWriter) -> None:
        """Watch until cancelled; `writer` is a connection of this thread."""
        beat_at = 0.0
        while True:
            now = time.monotonic()
            if now - beat_at > _BEAT_SECONDS:
                beat_at = now
                self.beat()
            self._loop.call_soon_threadsafe(self._answered)
            await asyncio.sleep(_CHECK_SECONDS)
            now = time.monotonic()
            blocked = now - self._loop_answered > _GRACE_SECONDS
            if overdue := self._overdue(now, _GRACE_SECONDS if blocked else _STUBBORN_SECONDS):
                await self._leave(writer, overdue, Exit.BLOCKED)
            if self._signals() >= 2 and blocked:
                await self._leave(writer, [], Exit.INTERRUPTED)

    def _answered(self) -> None:
        self._loop_answered = time.monotonic()

    def _overdue(self, now: float, grace: float) -> list[Executor]:
        overdue = []
        for executor in self._executors:
            deadline, handler = executor.deadline, executor.handler
            if deadline is not None and handler is not None and handler.is_async and now > deadline + grace:
                overdue.append(executor)
        return overdue

    async def _leave(self, writer: SettlementWriter, overdue: Sequence[Executor], code: Exit) -> None:
        """Write the outcomes that are known, give back the rest, and end the process."""
        settlements = self._in_flight.pending.outstanding
        known = {settlement.lease.job.id for settlement in settlements}
        for executor in overdue:
            lease, handler = executor.lease, executor.handler
            if lease is None or handler is None:
                continue
            error = TimedOutError(
                f"it is past its timeout of {handler.timeout.total_seconds():g} s and cannot be ended: the async"
                f" handler of '{handler.kind}' blocks the event loop. Make it a plain `def`, which runs in a process of"
                " its own, or let it await"
            )
            log.error("Failed work", job_id=lease.job.id, kind=lease.job.kind, error_type="timeout", error=str(error))
            failed = Settlement(lease, outcome_of_error(handler, lease.job, error))
            settlements.append(failed.made_by(executor.version))
            known.add(lease.job.id)
        rest = [lease for lease in list(self._in_flight.leases.held.values()) if lease.job.id not in known]
        settlements += [Settlement(lease, Released()) for lease in rest]
        reason = "an async handler blocks the event loop" if overdue else "asked twice to stop"
        log.error(f"STOPPING: {reason}; the worker leaves", given_back=len(rest), exit_code=int(code))
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                self.beat()
                await writer.settle_last(settlements)
                await writer.close()
        except Exception as error:  # noqa: BLE001 (logged here; the process must end in any case)
            log.warning("The last outcomes could not be written; the jobs come back with their lease", error=str(error))
        self._children.kill_now()
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(int(code))
