"""`longshore work`: run one worker."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from longshore.cli import options
from longshore.cli.options import meaning
from longshore.errors import QueueUnavailableError, UsageError

if TYPE_CHECKING:
    from longshore.lease import WorkerId
    from longshore.observe.live_line import LiveLine
    from longshore.observe.log_file import LogFile
    from longshore.settings import Settings
    from longshore.worker import WorkerConfig
    from longshore.worker.status.counters import WorkerReport
    from longshore.worker.status.log_reporter import LogReporter
    from longshore.worker.status.observed_worker import ObservedWorker

_OBJECTS_PER_COLLECTION = 5_000


def work(
    context: typer.Context,
    file: options.HandlerFile = None,
    run: options.Run = None,
    kinds: Annotated[
        str | None, typer.Option(metavar="K,…", help="Only these kinds, of those in FILE.", show_default=False)
    ] = None,
    partitions: Annotated[
        str | None, typer.Option(metavar="P,…", help="Only these partitions.", show_default=False)
    ] = None,
    concurrency: options.Concurrency = None,
    min_delay_seconds: Annotated[
        str | None, typer.Option(metavar="S", help=meaning("min_delay_seconds"), show_default=False)
    ] = None,
    max_delay_seconds: Annotated[
        str | None, typer.Option(metavar="S", help=meaning("max_delay_seconds"), show_default=False)
    ] = None,
    batch_size: Annotated[str | None, typer.Option(metavar="N", help=meaning("batch_size"), show_default=False)] = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", metavar="", help="Stop when nothing is left to do.")
    ] = False,
    max_work: Annotated[str | None, typer.Option(metavar="N", help=meaning("max_work"), show_default=False)] = None,
    max_empty_polls: Annotated[
        str | None,
        typer.Option(metavar="N", help=meaning("max_empty_polls"), show_default=False),
    ] = None,
    max_idle_hours: Annotated[
        str | None, typer.Option(metavar="H", help=meaning("max_idle_hours"), show_default=False)
    ] = None,
    worker_id: Annotated[str | None, typer.Option(metavar="W", help=meaning("worker_id"), show_default=False)] = None,
    poll_interval: Annotated[
        str | None, typer.Option(metavar="S", help=meaning("poll_interval"), show_default=False)
    ] = None,
    lease_seconds: options.LeaseSeconds = None,
    accept: options.Accept = None,
    profile: options.Profile = None,
    story: Annotated[
        bool,
        typer.Option(
            "--story", metavar="", help="A sentence for every job, also if they are fast or the log is piped."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", metavar="", help="Only failures, trouble and the end.")] = False,
    log_format: options.LogFormat = None,
    metrics_port: options.MetricsPort = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
    log_file: Annotated[Path | None, typer.Option("--log-file", hidden=True)] = None,
    lifeline: Annotated[bool, typer.Option("--lifeline", hidden=True)] = False,
    place: Annotated[str | None, typer.Option("--place", hidden=True)] = None,
    fingerprint: Annotated[str | None, typer.Option("--published", hidden=True)] = None,
) -> int:
    """Work on the queue with the handlers of FILE, until told to stop.

    Without FILE the handlers come from the queue itself ('longshore publish'). They run only after you have accepted
    them: you are asked once for each version, or give its fingerprint with --accept.

    On a terminal, slow work tells what becomes of each job and how far the run is; fast work has one line that moves,
    and only failures are printed. Ctrl-C finishes the jobs in flight and stops; a second one gives them back and leaves
    at once. The pauses between jobs and the concurrency follow .env and longshore.toml while it runs.
    """
    from longshore.observe.structlog_plain import import_structlog_alone

    # Before the imports below, which would import structlog with all its optional parts.
    import_structlog_alone()
    from longshore.fleet.supervise.lifeline import hold_on, raise_interrupt
    from longshore.fleet.supervise.status_reports import Reports
    from longshore.fleet.supervise.worker_slot import Attendance, WorkerSlot
    from longshore.handlers.load import load_handlers
    from longshore.handlers.partition_names import partitions_in
    from longshore.lease import WorkerId
    from longshore.observe import traces
    from longshore.observe.logs import configure
    from longshore.runs.local.choose_handler import check_kinds
    from longshore.runs.local.one_worker import stop_conditions_of, worker_info
    from longshore.runs.open_queue import check_shared
    from longshore.runs.schedules.trigger import ScheduleTrigger
    from longshore.settings import export_dotenv, export_profile, resolve
    from longshore.worker import WorkerConfig
    from longshore.worker import work as work_on
    from longshore.worker.kit.config import KitConfig
    from longshore.worker.kit.proxy_setup import check_tools
    from longshore.worker.lifecycle.egress import guard
    from longshore.worker.lifecycle.live_settings import LiveSettings
    from longshore.worker.lifecycle.process_exit import run_and_exit

    given = {
        "concurrency": concurrency,
        "min_delay_seconds": min_delay_seconds,
        "max_delay_seconds": max_delay_seconds,
        "batch_size": batch_size,
        "max_work": max_work,
        "max_empty_polls": max_empty_polls,
        "max_idle_hours": max_idle_hours,
        "worker_id": worker_id,
        "poll_interval": poll_interval,
        "lease_seconds": lease_seconds,
        "profile": profile,
        "log_format": log_format,
        "metrics_port": metrics_port,
        "queue": queue,
        "debug": debug,
    }
    if story and quiet:
        raise UsageError("Give --story or --quiet, not both.")
    if file is None:
        from longshore.ui.published.work_here import code_request, work_here

        settings = resolve(given)
        check_shared(settings)
        return work_here(code_request(settings, run, accept, "work"), _passed_on(context))
    if accept is not None:
        raise UsageError("--accept is for the handlers of the queue, and FILE names others. Leave one of them out.")
    # Before anything can be printed.
    reports = Reports() if lifeline else None
    # A copy from before the profile is exported to handlers: an exported value is not a setting.
    environ = dict(os.environ)
    changing = LiveSettings(lambda: resolve(given, environ=environ))
    settings = changing.settings
    check_shared(settings)
    traces.begin(wanted=settings.traces)
    check_tools(settings)
    gate = guard(settings)
    export_dotenv()
    export_profile(settings)
    level = "debug" if settings.debug else "info"
    live = _live_line(settings, lifeline=lifeline, story=story, quiet=quiet)
    file_log = _log_file(settings, log_file)
    configure(format=settings.log_format, level=level, live=live, file=file_log)  # type: ignore[arg-type]  # checked by the table of settings
    wanted = options.listed(kinds)
    handlers = load_handlers(file)
    if wanted is not None:
        check_kinds(wanted, frozenset(handlers), file)
    worker = WorkerId.new(settings.worker_id)
    if lifeline:
        # Until the worker handles signals it holds no job, so it may simply end.
        signal.signal(signal.SIGTERM, _go)
        # The supervisor at the other end of the lifeline has submitted the run.
        hold_on()
    elif fingerprint is not None:
        # The command that waits for this process sends the requests to stop, and holds the pipe as long as it lives.
        hold_on(raise_interrupt)
    if not lifeline and not asyncio.run(
        _anything_to_come(settings, run, worker, until_done=until_done, own_file=fingerprint is None)
    ):
        return 0
    own_place = None if place is None else WorkerSlot.decoded(place)
    taken = tuple(sorted(handlers if wanted is None else wanted))
    info = worker_info(settings, taken)
    worker_config = WorkerConfig(
        queue_url=settings.queue,
        handler_file=file,
        published=fingerprint or "",
        worker=worker,
        lease=settings.lease,
        run=run,
        kinds=wanted,
        partitions=options.listed(partitions) if own_place is None else own_place.limited_to(),
        scope=Attendance(info) if own_place is None else own_place.scoping(partitions_in(file), info),
        concurrency=settings.concurrency,
        delay=settings.delay,
        batch_size=settings.batch_size,
        poll_interval=settings.poll,
        stop=stop_conditions_of(settings, run, until_done=until_done),
        kit=KitConfig.of(
            settings,
            worker,
            number=0 if own_place is None else own_place.number,
            workers=1 if own_place is None else max(own_place.size, own_place.number + 1),
        ),
        log_level=level,
    )
    # Jobs come and go by the hundred without reference cycles, so frequent garbage collections find nothing.
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    observed = None if reports is not None else _observed(settings)
    working = work_on(
        worker_config,
        handlers=handlers,
        reporter=_reporter(worker_config, settings, live, story=story, quiet=quiet),
        gate=gate,
        live=changing,
        watcher=reports or observed,
        starts=ScheduleTrigger,
    )
    if observed is not None:
        working = _worked_observed(working, observed, settings)
    return run_and_exit(working, None if reports is None else reports.goodbye)


def _log_file(settings: Settings, given: Path | None) -> LogFile | None:
    """Open the log file that the fleet has `given`, or one of this worker's own. Return None if that is impossible."""
    from longshore.fleet.launch.fleet_log import LOGS
    from longshore.observe.log_file import LogFile, own_log_file
    from longshore.ui.output import note

    try:
        file = own_log_file(LOGS, settings.worker_id) if given is None else LogFile(given, is_stderr=True)
    except OSError as error:
        note(
            f"longshore: There is no log file: {error.strerror or error} ({error.filename}). The work goes on without."
        )
        return None
    file.begin(sys.argv[1:])
    return file


def _observed(settings: Settings) -> ObservedWorker:
    from longshore.clock import SystemClock
    from longshore.worker.status.observed_worker import ObservedWorker

    return ObservedWorker(settings.worker_id or "worker", Path(settings.data_folder), SystemClock())


async def _worked_observed(
    working: Coroutine[Any, Any, WorkerReport], observed: ObservedWorker, settings: Settings
) -> WorkerReport:
    """Work, tell `longshore health` how the worker is, and offer its metrics if a port is set."""
    from longshore.observe.endpoint import offered
    from longshore.observe.health_files import told

    try:
        async with (
            offered(settings.metrics_port, settings.metrics_host, observed),
            told(observed, Path(settings.data_folder)),
        ):
            return await working
    finally:
        working.close()


def _live_line(settings: Settings, *, lifeline: bool, story: bool, quiet: bool) -> LiveLine | None:
    """Return the line that moves at the bottom of the terminal; None if the log goes elsewhere or has no such line."""
    from longshore.observe.live_line import LiveLine

    plain = lifeline or story or quiet or settings.debug or settings.log_format == "json"
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return None if plain or not terminal else LiveLine(sys.stderr)


def _reporter(
    config: WorkerConfig, settings: Settings, live: LiveLine | None, *, story: bool, quiet: bool
) -> LogReporter:
    """Return the log for a person on a terminal or who asked for it; else that of stable lines."""
    from longshore.clock import SystemClock
    from longshore.worker.status.log_reporter import LogReporter
    from longshore.worker.status.story_reporter import QuietReporter, StoryReporter

    clock = SystemClock()
    if quiet:
        return QuietReporter(config, clock)
    if settings.log_format != "json" and (story or live is not None):
        return StoryReporter(config, clock, live)
    return LogReporter(config, clock)


def _go(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


_OWN = frozenset({"file", "accept", "fingerprint", "queue", "lifeline", "log_file", "place"})
"""The parameters that are not passed on to the worker that runs published code."""


def _passed_on(context: typer.Context) -> list[str]:
    """Return the given options, for the worker that runs published code."""
    found: list[str] = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name in _OWN or value is None or value is False:
            continue
        found += [option.opts[0]] if value is True else [option.opts[0], str(value)]
    return found


async def _anything_to_come(
    settings: Settings, run: str | None, worker: WorkerId, *, until_done: bool, own_file: bool
) -> bool:
    """Return whether there is, or may come, a queue to work on. Raise `NotFoundError` for an unknown run to finish."""
    import structlog

    from longshore.extensions.find import find
    from longshore.extensions.published_code import check_not_pinned
    from longshore.extensions.shared_state import SharedState
    from longshore.observe.logs import bind_worker
    from longshore.runs.open_queue import counts_of, missing, open_existing, open_or_create
    from longshore.ui.output import note
    from longshore.url import mask_url

    # If the queue does not answer now, the worker waits for it.
    with suppress(QueueUnavailableError):
        if until_done and run is None and await missing(settings):
            note(f"{mask_url(settings.queue)} has no jobs yet. `longshore submit` puts some in.")
            return False
        if until_done and run is not None:
            async with open_existing(settings) as queue:
                await counts_of(queue, run, settings)
                if own_file:
                    await check_not_pinned(find(queue, SharedState), run, "work")
        elif run is not None:
            async with open_or_create(settings) as queue:
                if own_file:
                    await check_not_pinned(find(queue, SharedState), run, "work")
                if not await queue.stats(run):
                    bind_worker(worker.label)
                    structlog.get_logger().info(f"Run {run} has no jobs yet; waiting for them")
    return True
