"""One worker process: claim, execute, settle, until there is a reason to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

from longshore.clock import Clock, SystemClock
from longshore.errors import QueueUnavailableError, UnknownKindError
from longshore.extensions.find import find
from longshore.extensions.published_code import check_not_pinned
from longshore.extensions.shared_state import SharedState
from longshore.handlers.class_handler import connect
from longshore.handlers.handler import Handler
from longshore.handlers.load import load_handlers
from longshore.media import open_queue
from longshore.observe import traces
from longshore.observe.logs import bind_worker
from longshore.queue import Queue
from longshore.system.backoff import Backoff
from longshore.worker.assembly import Parts
from longshore.worker.config import WorkerConfig
from longshore.worker.context import WorkerContext
from longshore.worker.lifecycle.live_settings import LiveSettings
from longshore.worker.lifecycle.worker_run import WorkerRun
from longshore.worker.loop.schedule_poller import MakeStarts
from longshore.worker.loop.start_gate import Gate
from longshore.worker.loop.stop_conditions import Snapshot, out_of_reach, stop_conditions_in
from longshore.worker.status.counters import Exit, WorkerReport
from longshore.worker.status.log_reporter import LogReporter
from longshore.worker.status.worker_status import StatusWatcher


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
    """Be a worker until a stop condition holds, a signal comes, or the queue is lost; return the final report.

    Raises a `UsageError` if it cannot start. Without `handlers` they are loaded from the handler file of `config`;
    without `queue` it is opened from its URL; if it does not answer, it is tried until a stop condition holds. A given
    queue is not closed. No job begins while `gate` is closed. Changes of `live` settings take effect while the worker
    runs, and SIGHUP has them read again. `watcher` gets the status of the worker every second. `starts` makes the
    object that starts the runs of schedules.
    """
    clock = clock or SystemClock()
    if handlers is None:
        handlers = load_handlers(config.handler_file)
    kinds = _kinds(config, handlers)
    bind_worker(config.worker.label)
    reporter = reporter or LogReporter(config, clock)
    own_queue = queue is None
    began = clock.now(), clock.monotonic()

    def never_began(reason: str) -> WorkerReport:
        reporter.stopping_in_failure(reason)
        report = WorkerReport(
            worker=config.worker.label,
            started=began[0],
            ended=clock.now(),
            seconds=clock.monotonic() - began[1],
            reason=reason,
            exit_code=Exit.FAILED,
        )
        reporter.final(report)
        return report

    if queue is None:
        try:
            queue = await _opened(config, clock, reporter)
        except _NeverOpenedError as error:
            return never_began(str(error))
    try:
        if config.run is not None and not config.published:
            with suppress(QueueUnavailableError):
                await check_not_pinned(find(queue, SharedState), config.run, "work")
        for instance in connect([handlers[kind] for kind in kinds], config.queue_url, config.worker.label):
            if not await asyncio.to_thread(instance.healthy):
                return never_began(f"the health check of {instance.worker.__name__} failed")
        context = WorkerContext(config, clock, queue, reporter)
        parts = Parts(context, {kind: handlers[kind] for kind in kinds}, gate, watcher, starts)
        return await WorkerRun(parts, live).run(renew_in_thread=own_queue and queue.traits.spans_processes)
    finally:
        if own_queue:
            await queue.close()
        # Not left to the end of Python: a thread of a handler that never ends would keep it from coming.
        if traces.active() is not None:
            await asyncio.to_thread(traces.end)


def _kinds(config: WorkerConfig, handlers: Mapping[str, Handler]) -> list[str]:
    if config.kinds is None:
        return sorted(handlers)
    if unknown := config.kinds - set(handlers):
        raise UnknownKindError(
            f"There is no handler for {', '.join(sorted(unknown))} in {config.handler_file}."
            f" It has: {', '.join(sorted(handlers))}."
        )
    return sorted(config.kinds)


class _NeverOpenedError(Exception):
    """A stop condition held before the queue was opened; the message is the reason."""


async def _opened(config: WorkerConfig, clock: Clock, reporter: LogReporter) -> Queue:
    backoff, began = Backoff(0.5, 30.0), clock.monotonic()
    conditions = (*config.stop, *stop_conditions_in(config.handler_file))
    tries = 0
    while True:
        tries += 1
        try:
            queue = await open_queue(config.queue_url, clock=clock)
        except QueueUnavailableError as error:
            idle = timedelta(seconds=clock.monotonic() - began)
            snapshot = Snapshot(empty_polls=tries, idle=idle, uptime=idle)
            for condition in conditions:
                if (reason := condition.check(snapshot)) is not None:
                    raise _NeverOpenedError(out_of_reach(reason, str(error))) from error
            wait = backoff.next()
            reporter.unavailable("opening it", error, wait)
            await clock.sleep(wait)
        else:
            reporter.available()
            return queue
