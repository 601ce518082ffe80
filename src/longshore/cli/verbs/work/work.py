"""`longshore work`: run one worker."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from longshore.cli import options
from longshore.cli.options import meaning
from longshore.errors import QueueUnavailableError

if TYPE_CHECKING:
    from longshore.lease import WorkerId
    from longshore.settings import Settings
    from longshore.worker import StopCondition

_OBJECTS_PER_COLLECTION = 5_000
_KINDS_LENGTH = 2_000
"""The most characters of the names of kinds that a worker writes to the worker registry."""


def work(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The Python file with the handlers.", show_default=False)
    ],
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
        typer.Option(
            "--max-empty-polls",
            "--max-failures",
            metavar="N",
            help=meaning("max_empty_polls"),
            show_default=False,
        ),
    ] = None,
    max_idle_hours: Annotated[
        str | None, typer.Option(metavar="H", help=meaning("max_idle_hours"), show_default=False)
    ] = None,
    worker_id: Annotated[str | None, typer.Option(metavar="W", help=meaning("worker_id"), show_default=False)] = None,
    poll_interval: Annotated[
        str | None, typer.Option(metavar="S", help=meaning("poll_interval"), show_default=False)
    ] = None,
    lease_seconds: options.LeaseSeconds = None,
    profile: options.Profile = None,
    log_format: options.LogFormat = None,
    queue: options.WorkerQueue = None,
    debug: options.Debug = None,
    lifeline: Annotated[bool, typer.Option("--lifeline", hidden=True)] = False,
    place: Annotated[str | None, typer.Option("--place", hidden=True)] = None,
) -> int:
    """Work on the queue with the handlers of FILE, until told to stop.

    Ctrl-C finishes the jobs in flight and stops; a second one gives them back and leaves at once. The pauses between
    jobs and the concurrency follow .env and longshore.toml while it runs.
    """
    from longshore.observe.structlog_plain import import_structlog_alone

    # Before the imports below, which would import structlog with all its optional parts.
    import_structlog_alone()
    from longshore.extensions.presence import WorkerInfo
    from longshore.fleet.supervise.lifeline import hold_on
    from longshore.fleet.supervise.status_reports import Reports
    from longshore.fleet.supervise.worker_slot import Attendance, WorkerSlot
    from longshore.handlers.load import load_handlers
    from longshore.handlers.partition_names import partitions_in
    from longshore.lease import WorkerId
    from longshore.observe.logs import configure
    from longshore.runs.local.choose_handler import check_kinds
    from longshore.runs.open_queue import check_shared
    from longshore.runs.schedules.trigger import ScheduleTrigger
    from longshore.settings import export_dotenv, export_profile, resolve
    from longshore.system.machine import machine_name
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
        "queue": queue,
        "debug": debug,
    }
    # Before anything can be printed.
    reports = Reports() if lifeline else None
    # A copy from before the profile is exported to handlers: an exported value is not a setting.
    environ = dict(os.environ)
    live = LiveSettings(lambda: resolve(given, environ=environ))
    settings = live.settings
    check_shared(settings)
    check_tools(settings)
    gate = guard(settings)
    export_dotenv()
    export_profile(settings)
    level = "debug" if settings.debug else "info"
    configure(format=settings.log_format, level=level)  # type: ignore[arg-type]  # checked by the table of settings
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
    elif not asyncio.run(_anything_to_come(settings, run, worker, until_done=until_done)):
        return 0
    own_place = None if place is None else WorkerSlot.decoded(place)
    taken = tuple(sorted(handlers if wanted is None else wanted))
    published = taken if sum(map(len, taken)) <= _KINDS_LENGTH else None
    pause = settings.delay.mean or None
    info = WorkerInfo(machine=machine_name(), slots=settings.concurrency, pause=pause, kinds=published)
    worker_config = WorkerConfig(
        queue_url=settings.queue,
        handler_file=file,
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
        stop=_stop_conditions(settings, run, until_done=until_done),
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
    working = work_on(worker_config, handlers=handlers, gate=gate, live=live, watcher=reports, starts=ScheduleTrigger)
    return run_and_exit(working, None if reports is None else reports.goodbye)


def _go(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


async def _anything_to_come(settings: Settings, run: str | None, worker: WorkerId, *, until_done: bool) -> bool:
    """Return whether there is, or may come, a queue to work on. Raise `NotFoundError` for an unknown run to finish."""
    import structlog

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
        elif run is not None:
            async with open_or_create(settings) as queue:
                if not await queue.stats(run):
                    bind_worker(worker.label)
                    structlog.get_logger().info(f"Run {run} has no jobs yet; waiting for them")
    return True


def _stop_conditions(settings: Settings, run: str | None, *, until_done: bool) -> tuple[StopCondition, ...]:
    from datetime import timedelta

    from longshore.worker import MaxEmptyPolls, MaxIdle, MaxWork, RunFinished

    conditions: list[StopCondition] = []
    if settings.max_work:
        conditions.append(MaxWork(settings.max_work))
    if settings.max_empty_polls:
        conditions.append(MaxEmptyPolls(settings.max_empty_polls))
    if settings.max_idle_hours:
        conditions.append(MaxIdle(timedelta(hours=settings.max_idle_hours)))
    if until_done:
        conditions.append(RunFinished(run))
    return tuple(conditions)
