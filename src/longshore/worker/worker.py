"""One worker process: claim, execute, settle, until there is a reason to stop.

    claimer ──leases──▶ hand ──▶ runners ──settlements──▶ settler
                          ▲
                       renewal (a thread of its own)

The first signal, a stop condition or a queue that is lost drains it: what is under way is finished, what lies ready is
given back, nothing is claimed. A second signal ends what is under way and gives that back too.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import structlog

from longshore.clock import Clock, SystemClock
from longshore.errors import (
    InputFileError,
    LongshoreError,
    QueueError,
    QueueUnavailableError,
    UnknownKindError,
    UsageError,
)
from longshore.handlers.handler import Handler
from longshore.handlers.load import load_handlers
from longshore.lease import Lease
from longshore.media import open_queue
from longshore.observe.captured_prints import prints_to_log
from longshore.observe.logs import bind_worker
from longshore.outcome import Released, Settlement
from longshore.pacing.claim_filter import ClaimFilter
from longshore.pacing.worker_limiter import WorkerLimiter
from longshore.queue import Queue
from longshore.scrape.tor import TorError
from longshore.settings import Settings
from longshore.system.backoff import Backoff
from longshore.system.descriptors import raise_open_limit
from longshore.system.first_of import first_of
from longshore.system.keep_awake import awake
from longshore.worker.children.child_pool import ChildPool
from longshore.worker.config import WorkerConfig
from longshore.worker.kit.config import KitConfig
from longshore.worker.kit.rate_policy import rate_policy
from longshore.worker.kit.tools import WorkerTools
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.leases.renewal import Renewal, RenewalThread
from longshore.worker.lifecycle.hangup import Hangup
from longshore.worker.lifecycle.live_settings import LiveSettings
from longshore.worker.lifecycle.shutdown import LEAVE_SECONDS, Shutdown
from longshore.worker.lifecycle.signals import Signals
from longshore.worker.loop.claimer import Claimer
from longshore.worker.loop.executor import Executor, Interruption
from longshore.worker.loop.executor_pool import ExecutorPool
from longshore.worker.loop.job_spacing import JobSpacing
from longshore.worker.loop.reaper import Reaper
from longshore.worker.loop.schedule_poller import MakeStarts, SchedulePoller
from longshore.worker.loop.settlement_writer import SettlementWriter
from longshore.worker.loop.settler import Settler
from longshore.worker.loop.start_gate import Gate, Gatekeeper
from longshore.worker.loop.stop_conditions import MaxWork, stop_conditions_in
from longshore.worker.status.counters import Exit, WorkerCounters, WorkerReport, claim_success_rate
from longshore.worker.status.log_reporter import LogReporter
from longshore.worker.status.progress import Progress
from longshore.worker.status.worker_status import StatusWatcher
from longshore.wrappers.worker_queue import worker_queue

_LOOK_SECONDS = 1.0
"""Between two looks at the file of the proxies."""

log = structlog.get_logger()


async def work(
    config: WorkerConfig,
    *,
    clock: Clock | None = None,
    handlers: Mapping[str, Handler] | None = None,
    queue: Queue | None = None,
    reporter: LogReporter | None = None,
    gate: Gate | None = None,
    live: LiveSettings | None = None,
    watcher: StatusWatcher | None = None,
    starts: MakeStarts | None = None,
) -> WorkerReport:
    """Be a worker until a stop condition holds, a signal comes, or the queue is lost; then say how it went.

    Raises a `UsageError` where it cannot even start. What is left out is made from the configuration: the handlers from
    its file, the queue from its URL. A queue that is given is used as it is and not closed. Nothing begins while the
    gate, where one is given, is closed. Where live settings are given, their changes take effect while it runs, and
    SIGHUP has them read again. A watcher is told every second how the worker stands. `starts` is who starts the
    runs of schedules.
    """
    clock = clock or SystemClock()
    if handlers is None:
        handlers = load_handlers(config.handler_file)
    kinds = _kinds(config, handlers)
    bind_worker(config.worker.label)
    reporter = reporter or LogReporter(config, clock)
    own_queue = queue is None
    if queue is None:
        queue = await _opened(config, clock, reporter)
    wanted = {kind: handlers[kind] for kind in kinds}
    worker = _Worker(config, clock, wanted, queue, reporter, gate, live, watcher, starts)
    try:
        return await worker.live(renew_in_thread=own_queue and queue.traits.spans_processes)
    finally:
        if own_queue:
            await queue.close()


def _kinds(config: WorkerConfig, handlers: Mapping[str, Handler]) -> list[str]:
    if config.kinds is None:
        return sorted(handlers)
    if unknown := config.kinds - set(handlers):
        raise UnknownKindError(
            f"There is no handler for {', '.join(sorted(unknown))} in {config.handler_file}."
            f" It has: {', '.join(sorted(handlers))}."
        )
    return sorted(config.kinds)


async def _opened(config: WorkerConfig, clock: Clock, reporter: LogReporter) -> Queue:
    backoff = Backoff(0.5, 30.0)
    while True:
        try:
            queue = await open_queue(config.queue_url, clock=clock)
        except QueueUnavailableError as error:
            wait = backoff.next()
            reporter.unavailable("opening it", error, wait)
            await clock.sleep(wait)
        else:
            reporter.available()
            return queue


class _Worker:
    """The parts of one worker, and the order in which they start and end."""

    def __init__(
        self,
        config: WorkerConfig,
        clock: Clock,
        handlers: Mapping[str, Handler],
        queue: Queue,
        reporter: LogReporter,
        gate: Gate | None,
        live: LiveSettings | None,
        watcher: StatusWatcher | None,
        starts: MakeStarts | None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._handlers = handlers
        self._wrapped = worker_queue(queue, clock)
        self._queue = queue = self._wrapped.queue
        self._scheduler = SchedulePoller(starts, queue, clock, config.worker.incarnation)
        self._reporter = reporter
        self._tally = WorkerCounters()
        self._started = clock.monotonic()
        self._started_at = clock.now()
        self._conditions = (*config.stop, *stop_conditions_in(config.handler_file))
        self._hand = HeldLeases(clock, config.lease)
        self._pace = WorkerLimiter(rate_policy(config.kit), queue, clock)
        incarnation = config.worker.incarnation
        mark = secrets.token_hex(8)
        self._tools = WorkerTools(
            config.kit, incarnation, self._pace.limiter, clock, mark=mark, tell=reporter.proxies_wait
        )
        self._children = ChildPool(
            config.handler_file, mark, level=config.log_level, kit=config.kit, shared=self._tools
        )
        self._writer = SettlementWriter(self._wrapped, self._tools.records)
        self._settler = Settler(self._writer, self._hand, clock, config.batch_size, self, lambda: self._ending.patience)
        self._live = live
        self._refused_proxies = ""
        """Why their file could not be read, as far as that has been said."""
        self._tempo = JobSpacing(config.concurrency, config.delay, clock)
        self._crew = ExecutorPool(self._hand, self._runner, self._service)
        self._reaper = Reaper(config, queue, clock, reporter)
        self._gatekeeper = Gatekeeper(gate, clock, self)
        self._claimer = Claimer(
            config,
            frozenset(handlers),
            self._conditions,
            queue,
            self._tempo,
            self._hand,
            self._settler,
            self._tally,
            clock,
            self._reaper,
            self._gatekeeper,
            ClaimFilter(self._pace.limiter, lambda: (lease.job.host for lease in self._hand.held.values())),
            reporter,
            self,
        )
        self._ending = Shutdown(self._claimer.stopping, reporter, self._hand, self._settler, config.lease)
        self._progress = Progress(
            config,
            clock,
            self._wrapped.timer,
            queue,
            reporter,
            self._tally,
            self._hand,
            self._settler,
            self._crew,
            self._claimer.scope,
            watcher,
            lambda: self._tools.proxy_news.waits,
        )

    async def live(self, *, renew_in_thread: bool) -> WorkerReport:
        """From `initialized` to the final statistics."""
        raise_open_limit()
        with Signals(self._ending.signalled) as signals:
            self._reporter.initialized(sorted(self._handlers))
            renewal = Renewal(self._config, self._hand, self._settler, self)
            thread = self._renewal_thread(renewal, signals) if renew_in_thread else None
            with awake(self._config.keep_awake, self._reporter.may_sleep), prints_to_log():
                await self._work(renewal, thread)
            # A queue in trouble is not asked for a mere figure.
            healthy = not self._ending.code and not self._progress.queue_error
            return self._final(await claim_success_rate(self._queue) if healthy else None)

    async def _follow(self, live: LiveSettings) -> None:
        """Take on what changes in the settings."""
        with Hangup(asked=live.ask, terminal_gone=self._ending.terminal_gone):
            await live.watch(self._clock, self._change)

    def _change(self, settings: Settings) -> None:
        if self._claimer.stopping.is_set():
            return
        self._tempo.change(settings.concurrency, settings.delay)
        self._change_tools(settings)
        if self._tempo.pauses:
            # It would lie here until its turn comes.
            self.unwanted(self._hand.take_back())
        self._crew.resize(settings.concurrency)

    def _change_tools(self, settings: Settings) -> None:
        kit = self._kit(settings)
        self._pace.limiter.policy = rate_policy(kit)
        self._take_proxies(kit)

    def _kit(self, settings: Settings) -> KitConfig:
        proxies = self._config.kit.proxies
        return KitConfig.of(settings, self._config.worker, number=proxies.number, workers=proxies.workers)

    def _take_proxies(self, kit: KitConfig) -> None:
        before = self._tools.config.proxies
        try:
            self._tools.change(kit)
        except UsageError as error:
            if str(error) != self._refused_proxies:
                self._refused_proxies = str(error)
                until = ", until their file can be read" if isinstance(error, InputFileError) else ""
                log.warning(f"The proxies stay as they were{until}: {error}")
            return
        self._refused_proxies = ""
        self._children.change(self._tools.config)
        if kit.proxies.file is not None and kit.proxies != before:
            log.info(f"Proxies read: {kit.proxies.file}")

    async def _follow_proxies(self, live: LiveSettings) -> None:
        """Read the file of the proxies again when it has changed, or can be read at last."""
        before = None
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            kit = self._kit(live.settings)
            # One that has changed since the last look may still be written.
            if kit.proxies == before:
                self._take_proxies(kit)
            before = kit.proxies

    async def _through_tor(self) -> None:
        """Nothing begins before the way through Tor is open, or it is time to stop."""
        try:
            await first_of(self._tools.start_tor(), self._claimer.stopping.wait())
        except TorError as error:
            self._ending.fail(str(error))

    async def _open_records(self, url: str) -> None:
        """Nothing begins where its records could not be kept."""
        try:
            await self._tools.records.open_database(url)
        except (UsageError, QueueError) as error:
            self._ending.fail(f"Records: {error}")

    async def _work(self, renewal: Renewal, thread: RenewalThread | None) -> None:
        claiming = self._service(self._claimer.run())
        services = [claiming, self._service(self._reaper.run())]
        services += [self._service(self._pace.keep()), self._service(self._wrapped.limits.keep())]
        services += [self._service(self._scheduler.run()), self._service(self._tools.post_proxies())]
        services += [self._service(self._gatekeeper.run()), self._service(self._claimer.scope.keep())]
        if self._live is not None:
            services += [self._service(self._follow(self._live)), self._service(self._follow_proxies(self._live))]
        # After the one that hears SIGHUP: whoever is told how the worker stands may send it one.
        services.append(self._service(self._progress.run()))
        if thread is not None:
            thread.start()
        else:
            services.append(self._service(renewal.run(self._queue, self._clock.sleep)))
        settling = self._service(self._settler.run())
        if self._config.kit.records_database is not None:
            await self._open_records(self._config.kit.records_database)
        if self._config.kit.tor:
            await self._through_tor()
        self._crew.resize(self._tempo.concurrency)
        try:
            await self._claimer.stopping.wait()
            self._claimer.scope.retire()
            await self._drain([claiming, *self._crew.tasks])
            self._settler.close()
            await settling
        finally:
            services += [settling, *self._crew.tasks]
            for service in services:
                service.cancel()
            await asyncio.gather(*services, return_exceptions=True)
            await self._say_goodbye()
            if thread is not None:
                await thread.stop()
            await self._children.close()
            await self._tools.close()
            await self._pace.close()

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._claimer.scope.close()
                await self._wrapped.limits.tell()
        except (QueueError, TimeoutError) as error:
            log.warning("The other workers could not be told that this one leaves; they notice it", error=str(error))

    def _runner(self) -> Executor:
        return Executor(self._hand, self._handlers, self._children, self._tools, self._settler.put, self._tempo)

    def _renewal_thread(self, renewal: Renewal, signals: Signals) -> RenewalThread:
        timeouts = [h.timeout.total_seconds() for h in self._handlers.values() if h.is_async]
        return RenewalThread(
            renewal,
            self._config,
            self._second_writer,
            self._crew.runners,
            self._settler,
            self._children,
            self._hand,
            max(timeouts, default=None),
            signals.received,
        )

    async def _second_writer(self) -> SettlementWriter:
        """Open the queue once more, for the event loop of another thread."""
        queue = await open_queue(self._config.queue_url)
        return SettlementWriter(worker_queue(queue, SystemClock(), same_worker=self._wrapped), self._tools.records)

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for what is under way: the attempts, and a claim that may still bring something to give back."""

        self.unwanted(self._hand.close())
        self._tempo.look_up()
        if await first_of(asyncio.wait(tasks), self._ending.at_once.wait()) is None:
            await self._leave(tasks)

    async def _leave(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """The second signal: end what is under way, give it back, be gone in seconds."""
        for runner in self._crew.runners:
            runner.interrupt(Interruption.LEAVE)
        _, unfinished = await asyncio.wait(tasks, timeout=LEAVE_SECONDS)
        if not unfinished:
            return
        # A handler that ignores being cancelled cannot keep us: what it holds is given back, and the process ends.
        held = list(self._hand.held.values())
        settlements = [*self._settler.outstanding, *(Settlement(lease, Released()) for lease in held)]
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._writer.settle_last(settlements)
        except (QueueError, TimeoutError) as error:
            log.warning("What was in hand could not be given back; it comes back with its lease", error=str(error))
        self._children.kill_now()
        self._tally.released += len(held)
        self._final()
        sys.stderr.flush()
        os._exit(int(self._ending.code))

    def _final(self, claim_success: float | None = None) -> WorkerReport:
        if unwritten := self._settler.unwritten + self._settler.busy:
            self._reporter.unwritten(unwritten, self._config.lease)
            self._ending.code = self._ending.code or Exit.FAILED
        tally = self._tally
        report = WorkerReport(
            worker=self._config.worker.label,
            claimed=tally.claimed,
            completed=tally.completed,
            failed=tally.failed,
            retried=tally.retried,
            snoozed=tally.snoozed,
            released=tally.released,
            stale=tally.stale,
            lost_races=tally.lost_races,
            started=self._started_at,
            ended=self._clock.now(),
            seconds=self._clock.monotonic() - self._started,
            reason=self._ending.reason,
            exit_code=int(self._ending.code),
            target=min((c.limit for c in self._conditions if isinstance(c, MaxWork)), default=None),
            claim_success_rate=claim_success,
        )
        self._reporter.final(report)
        self._progress.show()
        return report

    def _service(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(self._guarded(coroutine))

    async def _guarded(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """No part dies unseen: its error stops the worker, and is its reason."""
        try:
            await coroutine
        except LongshoreError as error:
            self._ending.fail(str(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._ending.fail(f"{type(error).__name__}: {error}")
            log.exception("The worker failed")

    # What the parts tell it

    def stop(self, reason: str) -> None:
        """A stop condition holds."""
        self._ending.stop(reason)

    def fatal(self, error: QueueError) -> None:
        """The queue is lost for good."""
        self._progress.queue_error = str(error)
        self._ending.fail(str(error))
        if self._hand.unsure:
            # Nobody will take their outcomes, and nobody can say that they are still ours.
            self.lost(list(self._hand.held.values()))

    def settled(self, settlements: list[Settlement], accepted: list[bool]) -> None:
        """The settler has written these."""
        ended = self._tally.ended
        verdicts = self._tally.count(settlements, accepted)
        for settlement in verdicts.refused:
            self._reporter.lost_lease(settlement.lease, "its outcome was refused")
        for number, (settlement, again) in enumerate(verdicts.failed, ended + 1):
            self._reporter.failed(settlement, number, again=again)
        if verdicts.completed:
            self._reporter.completed(verdicts.completed, self._tally.ended)
        self.available()
        if verdicts.completed or verdicts.failed:  # what was given back took no time, and says nothing
            self._claimer.learn(verdicts.seconds / len(settlements))
        self._hand.need.set()

    def rested(self) -> None:
        """The settler has nothing left to write."""
        if not self._hand.held:
            self._claimer.rest()

    def lost(self, leases: Sequence[Lease]) -> None:
        """Renewal found that these leases are gone: end the attempts, whose outcome would be refused."""
        hand = self._hand
        for lease in leases:
            if hand.held.get(lease.job.id) is not lease:
                continue
            self._tally.stale += 1
            self._reporter.lost_lease(lease, "the attempt is ended")
            hand.let_go(lease)
            if lease in hand.ready:
                hand.ready.remove(lease)
            for runner in self._crew.runners:
                if runner.lease is lease:
                    runner.interrupt(Interruption.LOST)
        hand.need.set()
        if not self._settler.busy:
            self.rested()

    def unwanted(self, leases: Sequence[Lease]) -> None:
        """These were claimed and not begun: give them back."""
        for lease in leases:
            self._settler.put(Settlement(lease, Released()))

    def paused(self, reason: str) -> None:
        """The gate has closed: what is not begun is given back, for others may be able to work on it."""
        self._progress.pause_reason = reason
        self.unwanted(self._hand.take_back())
        self._reporter.paused(reason)

    def resumed(self) -> None:
        """The gate is open again."""
        self._progress.pause_reason = ""
        self._reporter.resumed()

    def unavailable(self, doing: str, error: QueueError, wait: float) -> None:
        self._progress.queue_error = str(error)
        self._reporter.unavailable(doing, error, wait)

    def available(self) -> None:
        self._progress.queue_error = ""
        self._reporter.available()
