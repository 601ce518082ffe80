"""`longshore schedule`: start runs at set times."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.handlers.handler import Handler
    from longshore.runs.schedules.schedule import FromList, Schedule
    from longshore.runs.submit.shared_urls import Identities
    from longshore.settings import Settings


def schedule(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The schedule. Left out, all of them.", show_default=False)
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option(
            metavar="LINE",
            help="When: minute, hour, day, month and weekday, as in '0 2 * * *' for every night at two.",
            show_default=False,
        ),
    ] = None,
    zone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of --cron, as in Europe/Berlin.")] = "UTC",
    scraper: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="The scraper of longshore.toml to start. Left out, the one named NAME.",
            show_default=False,
        ),
    ] = None,
    urls_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A file with one URL a line, read again for every run; - is standard input, kept in the queue.",
            show_default=False,
        ),
    ] = None,
    jobs_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The same with a JSONL file, one job a line.", show_default=False),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="With a file: which handler the jobs are for.", show_default=False),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(
            metavar="F,…",
            help="With a file: the payload fields that make jobs different. Left out, the URL.",
            show_default=False,
        ),
    ] = None,
    max_depth: options.MaxDepth = None,
    max_jobs: options.MaxJobs = None,
    now: Annotated[bool, typer.Option("--now", metavar="", help="Start a run of it at once.")] = False,
    remove: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove this schedule.", show_default=False)
    ] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Create, list, start and remove schedules. They are kept in the queue, and any worker of it starts their runs.

    --cron creates the schedule NAME, or changes it. Each of its times starts exactly one run, however many workers
    there are. If no worker was there at some of its times, one run makes up for the last of them.
    """
    from longshore.runs.control.growth_limits import GrowthLimits
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    if remove is not None:
        if name is not None or cron is not None or now:
            raise UsageError("--remove takes the name of a schedule, and nothing goes beside it.")
        asyncio.run(_remove(settings, remove))
        return
    if name is None and (cron is not None or now):
        raise UsageError("Name the schedule: longshore schedule NAME --cron '0 2 * * *'")
    made = None
    if name is not None and cron is not None:
        limits = GrowthLimits(max_depth=max_depth, max_jobs=max_jobs)
        made = _made(name, cron, zone, scraper, urls_file, jobs_file, kind, identity, limits)
    elif any(each is not None for each in (scraper, urls_file, jobs_file, kind, identity, max_depth, max_jobs)):
        raise UsageError("Say when, with --cron '0 2 * * *': minute, hour, day, month and weekday.")
    asyncio.run(_carry_out(settings, name, made, now=now, json=json))


def _made(
    name: str,
    cron: str,
    zone: str,
    scraper: str | None,
    urls_file: str | None,
    jobs_file: str | None,
    kind: str | None,
    identity: str | None,
    limits: Any,
) -> Schedule:
    """Return the schedule that the options describe, after every check that is possible here."""
    from longshore.cli.input_file import input_file
    from longshore.job import DEFAULT_MAX_ATTEMPTS
    from longshore.runs.schedules.schedule import FromScraper, Schedule, check_name
    from longshore.runs.schedules.timetable import Timetable

    check_name(name)
    when = Timetable(cron, zone)
    if urls_file is None and jobs_file is None:
        if kind is not None:
            raise UsageError("--kind goes with --urls-file or --jobs-file; a scraper says its own.")
        if identity is not None:
            raise UsageError(
                "--identity goes with --urls-file or --jobs-file; the handler of a scraper declares its own."
            )
        handler = _of_scraper(scraper or name, named=scraper is not None)
        return Schedule(
            when=when,
            what=FromScraper(scraper or name),
            kind=handler.kind,
            max_attempts=DEFAULT_MAX_ATTEMPTS if handler.retries is None else handler.retries + 1,
            limits=limits,
            identities=dict(handler.identities),
        )
    if scraper is not None:
        raise UsageError("Give --scraper or a file with jobs, not both.")
    if kind is None or not kind.strip():
        raise UsageError("Say which handler the jobs are for: --kind KIND.")
    identities = options.identities(kind, identity)
    what = _of_file(input_file(urls_file, jobs_file), kind, identities)
    return Schedule(when=when, what=what, kind=kind, limits=limits, identities=identities)


def _of_scraper(name: str, *, named: bool) -> Handler:
    """Return the handler of its jobs: the worker that starts a run may not have the handler file."""
    from longshore.errors import NotFoundError
    from longshore.handlers.load import load_handlers
    from longshore.runs.local.choose_handler import choose_handler
    from longshore.runs.scrapers.registry import find_scraper
    from longshore.runs.submit.shared_urls import by_handler
    from longshore.runs.submit.submission import check_file
    from longshore.settings import export_dotenv

    try:
        scraper = find_scraper(name)
    except NotFoundError as error:
        if named:
            raise
        raise UsageError(f"{error} Or name the jobs: --urls-file FILE --kind KIND.") from error
    if not scraper.distributed:
        raise UsageError(
            f"{name} has mode single, and a schedule can only start runs for workers. Write "
            f'mode = "distributed" into its table, or let the system\'s cron call `longshore start {name}`.'
        )
    if scraper.jobs is None:
        raise UsageError(f'{name} has no source of jobs. Write one into its table, such as urls = "urls.txt".')
    export_dotenv()
    file = Path(scraper.handler)
    handler = choose_handler(load_handlers(file), scraper.kind, file)
    check_file(scraper.jobs, handler.kind, handler.identities, by_handler)
    return handler


def _of_file(source: Any, kind: str, identities: Identities) -> FromList:
    from longshore.runs.schedules.schedule import kept
    from longshore.runs.submit.shared_urls import by_option
    from longshore.runs.submit.submission import check_file

    if source.rereadable:
        check_file(source, kind, identities, by_option)
    return kept(source)


async def _remove(settings: Settings, name: str) -> None:
    from longshore.runs.open_queue import open_existing
    from longshore.runs.schedules.schedule import keeping, remove
    from longshore.ui.output import write

    async with open_existing(settings) as queue:
        await remove(keeping(queue), name)
    write(f"{name} is removed. The runs that it started stay.")


async def _carry_out(settings: Settings, name: str | None, made: Schedule | None, *, now: bool, json: bool) -> None:
    from longshore.runs.open_queue import open_existing, open_or_create
    from longshore.runs.schedules.schedule import define, keeping, schedule_of, schedules
    from longshore.ui.output import write, write_json
    from longshore.ui.words import counted

    async with open_or_create(settings) if made is not None else open_existing(settings) as queue:
        book = keeping(queue)
        started = None
        if name is not None and made is not None:
            await define(book, name, made)
        if name is not None and now:
            started = await _start(queue, name)
        if name is None:
            moment, there = await schedules(book)
            listed = {each: stored.schedule for each, stored in there.items()}
        else:
            moment, stored = await schedule_of(book, name)
            listed = {name: stored.schedule}
    if json:
        facts = [_facts(each, its, moment) for each, its in listed.items()]
        write_json(facts if name is None else facts[0])
        return
    if name is not None and started is not None:
        write(f"Run {started.run_id} of {name} is submitted: {counted(started.submitted, 'job')}.")
    if name is not None and made is not None:
        write(f"{name} is scheduled; the next run is at {_local(listed[name].next(moment), listed[name])}.")
    elif not listed:
        write("There are no schedules. To make one: longshore schedule NAME --cron '0 2 * * *'")
    elif started is None:
        _show(listed, moment)


async def _start(queue: Any, name: str) -> Any:
    from longshore.clock import SystemClock
    from longshore.lease import WorkerId
    from longshore.runs.schedules.trigger import ScheduleTrigger

    return await ScheduleTrigger(queue, SystemClock(), WorkerId.new().incarnation).start_now(name)


def _facts(name: str, schedule: Schedule, now: float) -> dict[str, Any]:
    return {
        "name": name,
        "cron": schedule.when.cron,
        "zone": schedule.when.zone,
        "what": str(schedule.what),
        "kind": schedule.kind,
        "max_depth": schedule.limits.max_depth,
        "max_jobs": schedule.limits.max_jobs,
        "next": schedule.next(now),
        "last": schedule.last,
        "last_run": schedule.last_run or None,
        "last_jobs": schedule.last_jobs if schedule.last is not None else None,
        "state": _state(schedule, now),
        "trouble": schedule.trouble or None,
    }


def _show(listed: dict[str, Schedule], now: float) -> None:
    from longshore.ui.output import note
    from longshore.ui.tables import write_table
    from longshore.ui.words import one_line

    rows = [
        (name, its.when.cron, str(its.what), _local(its.next(now), its), its.last_run, _state(its, now))
        for name, its in listed.items()
    ]
    write_table(("name", "cron", "what", "next run", "last run", "state"), rows, cut=("what",))
    for name, its in listed.items():
        if _state(its, now) == "due":
            note(f"{name} is due, and no worker that can start it has looked yet.")
        if its.trouble:
            note(f"{name}: the last run could not be submitted as a whole: {one_line(its.trouble, 400)}")


def _state(schedule: Schedule, now: float) -> str:
    if schedule.begun is not None:
        return "submitting"
    if schedule.due(now) is not None:
        return "due"
    return "failed" if schedule.trouble else "waiting"


def _local(instant: float, schedule: Schedule) -> str:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    return datetime.fromtimestamp(instant, ZoneInfo(schedule.when.zone)).strftime("%Y-%m-%d %H:%M %Z")
