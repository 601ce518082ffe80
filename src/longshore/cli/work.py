"""`longshore work`: one worker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.cli.options import meaning

if TYPE_CHECKING:
    from longshore.settings import Settings
    from longshore.worker import StopCondition


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
    batch_size: Annotated[str | None, typer.Option(metavar="N", help=meaning("batch_size"), show_default=False)] = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", metavar="", help="Stop when nothing is left to do.")
    ] = False,
    max_work: Annotated[str | None, typer.Option(metavar="N", help=meaning("max_work"), show_default=False)] = None,
    max_failures: Annotated[
        str | None, typer.Option(metavar="N", help=meaning("max_failures"), show_default=False)
    ] = None,
    max_idle_hours: Annotated[
        str | None, typer.Option(metavar="H", help=meaning("max_idle_hours"), show_default=False)
    ] = None,
    worker_id: Annotated[str | None, typer.Option(metavar="W", help=meaning("worker_id"), show_default=False)] = None,
    poll_interval: Annotated[
        str | None, typer.Option(metavar="S", help=meaning("poll_interval"), show_default=False)
    ] = None,
    lease_seconds: options.LeaseSeconds = None,
    log_format: options.LogFormat = None,
    queue: options.WorkerQueue = None,
    debug: options.Debug = None,
    lifeline: Annotated[bool, typer.Option("--lifeline", hidden=True)] = False,
) -> int:
    """Work on the queue with the handlers of FILE, until told to stop.

    Ctrl-C finishes what is under way and stops; a second one gives it back and leaves at once.
    """
    from longshore.fleet.lifeline import hold_on
    from longshore.handlers.load import load_handlers
    from longshore.lease import WorkerId
    from longshore.observe.logs import configure
    from longshore.settings import export_dotenv, resolve
    from longshore.worker import WorkerConfig
    from longshore.worker import work as work_on

    settings = resolve(
        {
            "concurrency": concurrency,
            "batch_size": batch_size,
            "max_work": max_work,
            "max_failures": max_failures,
            "max_idle_hours": max_idle_hours,
            "worker_id": worker_id,
            "poll_interval": poll_interval,
            "lease_seconds": lease_seconds,
            "log_format": log_format,
            "queue": queue,
            "debug": debug,
        }
    )
    export_dotenv()
    level = "debug" if settings.debug else "info"
    configure(format=settings.log_format, level=level)  # type: ignore[arg-type]  # checked by the table of settings
    wanted = options.listed(kinds)
    handlers = load_handlers(file)
    if wanted is not None:
        check_kinds(wanted, frozenset(handlers), file)
    if lifeline:
        hold_on()
    worker_config = WorkerConfig(
        queue_url=settings.queue,
        handler_file=file,
        worker=WorkerId.new(settings.worker_id),
        lease=settings.lease,
        run=run,
        kinds=wanted,
        partitions=options.listed(partitions),
        concurrency=settings.concurrency,
        batch_size=settings.batch_size,
        poll_interval=settings.poll,
        stop=_stop_conditions(settings, run, until_done=until_done),
        log_level=level,
    )
    return asyncio.run(work_on(worker_config, handlers=handlers)).exit_code


def check_kinds(wanted: frozenset[str], known: frozenset[str], file: Path) -> None:
    """`UnknownKindError` where a kind has no handler in the file."""
    from longshore.errors import UnknownKindError

    if missing := sorted(wanted - known):
        raise UnknownKindError(f"{file} has no handler for '{missing[0]}'. It handles: {', '.join(sorted(known))}.")


def _stop_conditions(settings: Settings, run: str | None, *, until_done: bool) -> tuple[StopCondition, ...]:
    from datetime import timedelta

    from longshore.worker import MaxEmptyPolls, MaxIdle, MaxWork, RunFinished

    conditions: list[StopCondition] = []
    if settings.max_work:
        conditions.append(MaxWork(settings.max_work))
    if settings.max_failures:
        conditions.append(MaxEmptyPolls(settings.max_failures))
    if settings.max_idle_hours:
        conditions.append(MaxIdle(timedelta(hours=settings.max_idle_hours)))
    if until_done:
        conditions.append(RunFinished(run))
    return tuple(conditions)
