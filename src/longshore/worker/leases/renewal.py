"""Renewal: keeps the worker's leases alive from a place that no handler can starve, and acts on what it learns.

Authority: the queue's answer to `renew` is the truth about what this worker holds.
    held here, not in the answer           lost: the attempt is ended, its outcome would be refused
    in the answer, unknown here, twice     claimed in a call whose answer got lost: given back
Deadline: every third of a lease, so that two renewals may fail before a lease is in danger.

A queue that several processes may open is opened a second time, in a thread with an event loop of its own: a handler
that blocks the worker's loop does not stop the renewals. The same thread is the watchdog, being the only one left to
notice: when an async attempt is past its timeout and the loop does not end it, it settles what can be settled, gives
back the rest, and ends the process. A handler that blocks every thread (C code that holds the interpreter's lock) stops
this one too; then the guardian, which hears from it no more, kills the worker.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from longshore.errors import QueueError, QueueUnavailableError, TimedOutError
from longshore.handlers.result import outcome_of_error
from longshore.lease import Lease
from longshore.observe.logs import bind_worker
from longshore.outcome import Released, Settlement
from longshore.queue import Queue
from longshore.settlement.orphaned_leases import OrphanedLeases
from longshore.worker.children.child_pool import ChildPool
from longshore.worker.config import WorkerConfig
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.executor import Executor
from longshore.worker.loop.settlement_writer import SettlementWriter
from longshore.worker.loop.settler import Settler
from longshore.worker.status.counters import Exit

_SHORTEST_INTERVAL = 0.3
_WATCH_SECONDS = 0.5
_GRACE_SECONDS = 2.0
"""How far past its timeout an attempt may be, while the loop does not answer, before the worker leaves."""
_STUBBORN_SECONDS = 15.0
"""The same for an attempt that ignores being cancelled while the loop does answer: it may be cleaning up."""
_LAST_WORDS_SECONDS = 10.0
_GUARDIAN_GRACE_SECONDS = 5.0

log = structlog.get_logger()


class RenewalEvents(Protocol):
    """Who wants to know what renewal learns. Called in the worker's event loop."""

    def unavailable(self, doing: str, error: QueueError, wait: float) -> None:
        """The queue is out of reach; it is tried again after `wait` seconds."""

    def available(self) -> None:
        """The queue answered."""

    def lost(self, leases: Sequence[Lease]) -> None:
        """These leases are not ours any more."""

    def fatal(self, error: QueueError) -> None:
        """The queue cannot be used at all."""


class Renewal:
    """The renewals of one worker."""

    def __init__(self, config: WorkerConfig, hand: HeldLeases, settler: Settler, listener: RenewalEvents) -> None:
        self._config = config
        self._hand = hand
        self._settler = settler
        self.listener = listener
        self._orphans = OrphanedLeases(config.worker)
        self._loop = asyncio.get_running_loop()
        self.interval = max(_SHORTEST_INTERVAL, config.lease.total_seconds() / 3)

    async def run(self, queue: Queue, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Renew until cancelled."""
        while True:
            await sleep(self.interval)
            try:
                await self.renew(queue)
            except QueueUnavailableError as error:
                self.unavailable(error, self.interval)
            except QueueError as error:
                self._loop.call_soon_threadsafe(self.listener.fatal, error)
            else:
                self._loop.call_soon_threadsafe(self.listener.available)

    def unavailable(self, error: QueueError, wait: float) -> None:
        """The queue is out of reach. From any thread."""
        self._loop.call_soon_threadsafe(self.listener.unavailable, "renewing leases", error, wait)

    async def renew(self, queue: Queue) -> None:
        """Renew once, and act on the answer."""
        hand = self._hand
        asked_at = hand.now()
        before, claiming = dict(hand.held), hand.claiming
        answer = set(await queue.renew(self._config.worker, self._config.lease))
        lost = [lease for lease in before.values() if lease.held not in answer and hand.held.get(lease.job.id) is lease]
        if lost:
            self._loop.call_soon_threadsafe(self.listener.lost, lost)
        self._loop.call_soon_threadsafe(hand.renewed, asked_at)
        if claiming or hand.claiming:
            return
        known = {lease.held for lease in list(hand.held.values())} | {s.lease.held for s in self._settler.outstanding}
        await self._orphans.give_back(queue, answer - known - {lease.held for lease in before.values()})


class RenewalThread:
    """Renewal and watchdog, in a thread of their own with a queue of their own."""

    def __init__(
        self,
        renewal: Renewal,
        config: WorkerConfig,
        open_writer: Callable[[], Awaitable[SettlementWriter]],
        runners: Sequence[Executor],
        settler: Settler,
        children: ChildPool,
        hand: HeldLeases,
        longest_timeout: float | None,
        signals: Callable[[], int],
    ) -> None:
        """`open_writer` opens a second connection, in this thread's event loop.

        `longest_timeout` is that of the async handlers, None without any; `signals` counts those received.
        """
        self._renewal = renewal
        self._config = config
        self._open_writer = open_writer
        self._runners = runners
        self._settler = settler
        self._children = children
        self._hand = hand
        self._signals = signals
        lease = config.lease.total_seconds()
        silence = lease if longest_timeout is None else min(lease, longest_timeout + _GRACE_SECONDS)
        self._silence = silence + _GUARDIAN_GRACE_SECONDS
        self._main = asyncio.get_running_loop()
        self._main_answered = time.monotonic()
        self._own: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._thread_main, name="longshore-renewal", daemon=True)

    def start(self) -> None:
        """Begin. The guardian hears of it before any handler runs, for the first one may block everything."""
        self._beat()
        self._thread.start()

    async def stop(self) -> None:
        """End, and wait until it has ended."""
        self._stopped.set()
        if self._own is not None and self._task is not None:
            try:
                self._own.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:
                log.debug("The renewal thread has ended before it was asked to")
        await asyncio.to_thread(self._thread.join, 10)

    def _thread_main(self) -> None:
        bind_worker(self._config.worker.label)
        try:
            asyncio.run(self._live())
        except asyncio.CancelledError:
            return

    async def _live(self) -> None:
        self._own, self._task = asyncio.get_running_loop(), asyncio.current_task()
        writer: SettlementWriter | None = None
        while writer is None and not self._stopped.is_set():
            try:
                writer = await self._open_writer()
            except QueueUnavailableError as error:
                wait = min(self._renewal.interval, 5.0)
                self._renewal.unavailable(error, wait)
                await asyncio.sleep(wait)
            except QueueError as error:
                self._main.call_soon_threadsafe(self._renewal.listener.fatal, error)
                return
        if writer is None or self._stopped.is_set():
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._renewal.run(writer.queue, asyncio.sleep))
                tasks.create_task(self._watch(writer))
        finally:
            await writer.close()

    async def _watch(self, writer: SettlementWriter) -> None:
        beat_at = 0.0
        while True:
            now = time.monotonic()
            if now - beat_at > 2.0:
                beat_at = now
                self._beat()
            self._main.call_soon_threadsafe(self._answered)
            await asyncio.sleep(_WATCH_SECONDS)
            now = time.monotonic()
            blocked = now - self._main_answered > _GRACE_SECONDS
            if overdue := self._overdue(now, _GRACE_SECONDS if blocked else _STUBBORN_SECONDS):
                await self._leave(writer, overdue, Exit.BLOCKED)
            if self._signals() >= 2 and blocked:
                await self._leave(writer, [], Exit.INTERRUPTED)

    def _beat(self) -> None:
        self._children.guardian.say(f"beat {self._silence:.1f}")

    def _answered(self) -> None:
        self._main_answered = time.monotonic()

    def _overdue(self, now: float, grace: float) -> list[Executor]:
        overdue = []
        for runner in self._runners:
            deadline, handler = runner.deadline, runner.handler
            if deadline is not None and handler is not None and handler.is_async and now > deadline + grace:
                overdue.append(runner)
        return overdue

    async def _leave(self, writer: SettlementWriter, overdue: Sequence[Executor], code: Exit) -> None:
        """The event loop is beyond help. Write down what is known, give back the rest, and end the process."""
        settlements = self._settler.outstanding
        named = {settlement.lease.job.id for settlement in settlements}
        for runner in overdue:
            lease, handler = runner.lease, runner.handler
            if lease is None or handler is None:
                continue
            error = TimedOutError(
                f"it is past its timeout of {handler.timeout.total_seconds():g} s and cannot be ended: the async"
                f" handler of '{handler.kind}' blocks the event loop. Make it a plain `def`, which runs in a process of"
                " its own, or let it await"
            )
            log.error("Failed work", job_id=lease.job.id, kind=lease.job.kind, error_type="timeout", error=str(error))
            settlements.append(Settlement(lease, outcome_of_error(handler, lease.job, error)))
            named.add(lease.job.id)
        rest = [lease for lease in list(self._hand.held.values()) if lease.job.id not in named]
        settlements += [Settlement(lease, Released()) for lease in rest]
        reason = "an async handler blocks the event loop" if overdue else "asked twice to stop"
        log.error(f"STOPPING: {reason}; the worker leaves", given_back=len(rest), exit_code=int(code))
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                self._beat()
                await writer.settle_last(settlements)
                await writer.close()
        except Exception as error:  # noqa: BLE001 (said here; whatever it is, the process must end)
            log.warning("The last outcomes could not be written; the jobs come back with their lease", error=str(error))
        self._children.kill_now()
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(int(code))
