"""The life of one worker: start its parts, wait for a reason to stop, drain, leave, report.

The first signal, a stop condition or a lost queue drains the worker: attempts under way are finished, ready jobs are
given back, nothing is claimed. A second signal ends the attempts under way and gives their jobs back too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

import structlog

from longshore.errors import QueueError, UsageError
from longshore.observe.captured_prints import prints_to_log
from longshore.outcome import Released, Settlement
from longshore.scrape.tor import TorError
from longshore.system.descriptors import raise_open_limit
from longshore.system.first_of import first_of
from longshore.system.keep_awake import awake
from longshore.worker.assembly import Parts
from longshore.worker.leases.renewal import RenewalThread
from longshore.worker.leases.watchdog import Watchdog
from longshore.worker.lifecycle.live_settings import LiveSettings
from longshore.worker.lifecycle.settings_follower import SettingsFollower
from longshore.worker.lifecycle.shutdown import LEAVE_SECONDS
from longshore.worker.lifecycle.signals import Signals
from longshore.worker.loop.executor import Interruption
from longshore.worker.status.counters import Exit, WorkerReport, claim_success_rate

log = structlog.get_logger()


class WorkerRun:
    """One run of a worker, from `initialized` to the final statistics."""

    def __init__(self, parts: Parts, live: LiveSettings | None) -> None:
        self._parts = parts
        self._live = live
        self._context = parts.context
        self._in_flight = parts.context.in_flight
        self._shutdown = parts.shutdown
        self._started = parts.context.clock.monotonic()
        self._started_at = parts.context.clock.now()

    async def run(self, *, renew_in_thread: bool) -> WorkerReport:
        """Work until there is a reason to stop; return the final report."""
        reporter, parts = self._context.reporter, self._parts
        raise_open_limit()
        with Signals(self._shutdown.signalled) as signals:
            reporter.initialized(sorted(parts.handlers))
            thread = self._renewal_thread(signals) if renew_in_thread else None
            with awake(self._context.config.keep_awake, reporter.may_sleep), prints_to_log():
                await self._work(thread)
            # A queue in trouble is not asked for a mere figure.
            healthy = not self._shutdown.code and not parts.blockage.queue_error
            return self._final(await claim_success_rate(self._context.queue) if healthy else None)

    async def _work(self, thread: RenewalThread | None) -> None:
        parts, kit = self._parts, self._context.config.kit
        claiming = self._start(thread)
        settling = parts.services.start(parts.settler.run())
        await self._open_records(kit.records_database)
        if kit.tor:
            await self._start_tor()
        parts.executors.resize(parts.spacing.concurrency)
        try:
            await self._shutdown.stopping.wait()
            parts.scope.retire()
            await self._drain([claiming, *parts.executors.tasks])
            parts.settler.close()
            await settling
        finally:
            await parts.services.end()
            await self._tell_others()
            if thread is not None:
                await thread.stop()
            await parts.children.close()
            await parts.tools.close()
            if parts.outbox is not None:
                parts.outbox.close()
            await parts.limiter.close()

    def _start(self, thread: RenewalThread | None) -> asyncio.Task[None]:
        """Start everything but the settler and the executors. Returns the task of the claimer."""
        parts, start = self._parts, self._parts.services.start
        claiming = start(parts.claimer.run())
        start(parts.reaper.run())
        start(parts.limiter.keep())
        start(self._context.queue.keep())
        start(parts.schedule_poller.run())
        start(parts.orders.run())
        start(parts.versions.run())
        start(parts.tools.post_proxies())
        start(parts.gatekeeper.run())
        start(parts.handler_checks.run())
        start(parts.scope.keep())
        if self._live is not None:
            follower = SettingsFollower(parts, self._live)
            start(follower.follow_settings())
            start(follower.follow_proxies())
        # After the task that handles SIGHUP: the watcher of the first status may send that signal.
        start(parts.progress.run())
        if thread is not None:
            thread.start()
        else:
            start(parts.renewal.run(self._context.queue, self._context.clock.sleep))
        return claiming

    def _renewal_thread(self, signals: Signals) -> RenewalThread:
        parts = self._parts
        watchdog = Watchdog(
            self._context, parts.handlers.values(), parts.executors.executors, parts.children, signals.received
        )
        return RenewalThread(parts.renewal, watchdog, parts.second_writer, self._context.config.worker.label)

    async def _start_tor(self) -> None:
        """Wait until requests can go through Tor, or until the worker stops: no job begins before."""
        try:
            await first_of(self._parts.tools.start_tor(), self._shutdown.stopping.wait())
        except TorError as error:
            self._shutdown.fail(str(error))

    async def _open_records(self, database: str | None) -> None:
        """Open the place of the records, if it is no folder: no job begins before, because they could not be kept."""
        records, outbox = self._parts.tools.records, self._parts.outbox
        try:
            if database is not None:
                await records.open_database(database)
            if outbox is not None:
                outbox.open()
                await records.open_keeper(self._context.queue, self._context.config.queue_url, outbox)
        except (UsageError, QueueError, OSError) as error:
            self._shutdown.fail(f"Records: {error}")

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for the attempts under way, and for a claim that may still bring leases to give back."""
        self._in_flight.give_back(self._in_flight.leases.close())
        self._parts.spacing.wake()
        if await first_of(asyncio.wait(tasks), self._shutdown.at_once.wait()) is None:
            await self._leave(tasks)

    async def _leave(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """End the attempts under way and give their jobs back, within seconds."""
        for executor in self._parts.executors.executors:
            executor.interrupt(Interruption.LEAVE)
        _, unfinished = await asyncio.wait(tasks, timeout=LEAVE_SECONDS)
        if not unfinished:
            return
        # A handler that ignores being cancelled cannot keep the process: its jobs are given back, and the process ends.
        held = list(self._in_flight.leases.held.values())
        settlements = [*self._in_flight.pending.outstanding, *(Settlement(lease, Released()) for lease in held)]
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._parts.writer.settle_last(settlements)
        except (QueueError, TimeoutError) as error:
            log.warning("The held jobs could not be given back; they come back with their lease", error=str(error))
        self._parts.children.kill_now()
        self._context.counters.released += len(held)
        self._final()
        sys.stderr.flush()
        os._exit(int(self._shutdown.code))

    async def _tell_others(self) -> None:
        """Tell the other workers, through the queue, that this one leaves."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._parts.scope.close()
                await self._context.queue.tell()
        except (QueueError, TimeoutError) as error:
            log.warning("The other workers could not be told that this one leaves; they notice it", error=str(error))

    def _final(self, claim_success: float | None = None) -> WorkerReport:
        context, shutdown, settler = self._context, self._shutdown, self._parts.settler
        if unwritten := settler.unwritten + self._in_flight.pending.count:
            context.reporter.unwritten(unwritten, context.config.lease)
            shutdown.code = shutdown.code or Exit.FAILED
        counters = context.counters
        report = WorkerReport(
            worker=context.config.worker.label,
            claimed=counters.claimed,
            completed=counters.completed,
            failed=counters.failed,
            retried=counters.retried,
            snoozed=counters.snoozed,
            released=counters.released,
            stale=counters.stale,
            lost_races=counters.lost_races,
            started=self._started_at,
            ended=context.clock.now(),
            seconds=context.clock.monotonic() - self._started,
            reason=shutdown.reason,
            exit_code=int(shutdown.code),
            target=self._parts.stop_check.target,
            claim_success_rate=claim_success,
        )
        context.reporter.final(report)
        self._parts.progress.show()
        return report
