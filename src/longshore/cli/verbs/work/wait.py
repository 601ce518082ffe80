"""`longshore wait`: watch a run until it ends, from any machine."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from datetime import timedelta

    from longshore.extensions.rejected import RejectedFiles
    from longshore.runs.estimate.forecast import Forecast
    from longshore.runs.estimate.recorded_runs import Recorder
    from longshore.runs.watch.blockers import Blockers
    from longshore.runs.watch.failures import FailureGroup
    from longshore.runs.watch.run_span import RunSpan
    from longshore.runs.watch.watcher import RunSnapshot, WaitEnd
    from longshore.settings import Settings


def wait(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run. Left out: the newest that is not finished.", show_default=False),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait no longer than this: 90s, 30m, 2h.", show_default=False),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Record the basis of the estimates, to see later how good they were.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Watch a run until it ends: its progress, its rate, the time left, its failures.

    Works at any time and from any machine, and changes nothing: Ctrl-C stops watching, the run goes on. The exit code
    says how it ended: 0 all completed, 1 some failed or were set aside or the run is gone, 3 some were cancelled and
    none failed, 4 the timeout expired, 130 Ctrl-C. --json prints how it ended on standard output.
    """
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    longest = options.age(timeout, "--timeout")
    return asyncio.run(waited(settings, run, longest, record, json=json))


async def waited(
    settings: Settings,
    named: str | None,
    longest: timedelta | None = None,
    record: Path | None = None,
    *,
    json: bool = False,
) -> int:
    """Watch a run to its end, print how it ended, and return the exit code of the command.

    Without a name, it is the newest run that is not finished.
    """
    from longshore.clock import SystemClock
    from longshore.runs.estimate.forecast import Forecast
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.watch.blockers import blockers_of
    from longshore.runs.watch.failures import failure_groups
    from longshore.runs.watch.rejections import rejections_of
    from longshore.runs.watch.run_end import end_with, newest_unfinished
    from longshore.runs.watch.run_span import run_span
    from longshore.runs.watch.watcher import WaitEnd
    from longshore.ui.local.run_summary import tell, width_of
    from longshore.ui.notices import notices_json
    from longshore.ui.output import write_json
    from longshore.ui.program import queue_flag
    from longshore.ui.progress import console

    clock, to = SystemClock(), console()
    async with open_existing(settings) as queue:
        run = named or await newest_unfinished(queue, settings)
        await counts_of(queue, run, settings)
        began = clock.monotonic()
        watch = Forecast(queue, run, clock)
        ended, look = await _watched(watch, run, queue_flag(settings), longest, record)
        held = await blockers_of(queue, run)
        over = look.finished and ended is not WaitEnd.GONE
        groups = await failure_groups(queue, run) if look.count.failed and over else []
        rejects = await rejections_of(queue, run)
        ended = await end_with(queue, run, ended)
        span = await run_span(queue, run, look.count, clock.now()) if over else None
    seconds = clock.monotonic() - began
    if json:
        set_aside = {} if rejects is None else {"set_aside": rejects.count}
        ran = {} if span is None else {"seconds": round(span.seconds, 1), "jobs_per_hour": round(span.jobs_per_hour, 1)}
        write_json({**_as_json(run, ended, look, groups, seconds), **ran, **set_aside, **notices_json(held)})
    else:
        lines = _closing(run, settings, ended, look, groups, width_of(to), span)
        tell(to, [*lines, *_rejected_lines(rejects), *_notice_lines(held, queue_flag(settings))])
    return _exit_code(ended)


async def _watched(
    watch: Forecast, run: str, flag: str, longest: timedelta | None, record: Path | None
) -> tuple[WaitEnd, RunSnapshot]:
    from longshore.clock import SystemClock
    from longshore.fleet.launch.stop_signals import stop_signals
    from longshore.runs.watch.watcher import wait_for
    from longshore.ui.progress import console
    from longshore.ui.wait_view import wait_view

    leave = asyncio.Event()
    with ExitStack() as around:
        recorder = _recorder(record, around)
        view = around.enter_context(wait_view(console(), f"run {run}", flag))
        around.enter_context(stop_signals(leave.set))

        def show(look: RunSnapshot) -> None:
            view.show(look, watch.blockers)
            if recorder is not None:
                recorder.note(look)

        return await wait_for(watch, SystemClock(), show, view.say, timeout=longest, leave=leave)


def _recorder(record: Path | None, around: ExitStack) -> Recorder | None:
    from longshore.errors import UsageError
    from longshore.runs.estimate.recorded_runs import Recorder

    if record is None:
        return None
    try:
        return Recorder(around.enter_context(record.open("xb")))
    except FileExistsError as error:
        raise UsageError(f"{record} is there already. Name a new file with --record.") from error
    except OSError as error:
        raise UsageError(f"{record} cannot be written: {error.strerror}. Name another file with --record.") from error


def _notice_lines(held: Blockers, flag: str) -> list[str]:
    from rich.markup import escape

    from longshore.ui.notices import notices

    return [escape(line) for line in notices(held, flag=flag).values()]


def _rejected_lines(rejects: RejectedFiles | None) -> list[str]:
    from rich.markup import escape

    from longshore.ui.words import set_aside

    return [] if rejects is None else [f"[red]{escape(set_aside(rejects.count, rejects.where))}[/red]"]


def _exit_code(ended: WaitEnd) -> int:
    from longshore.runs.watch.watcher import WaitEnd
    from longshore.ui.exit_codes import INTERRUPTED

    return {
        WaitEnd.COMPLETED: 0,
        WaitEnd.FAILED: 1,
        WaitEnd.REJECTED: 1,
        WaitEnd.GONE: 1,
        WaitEnd.CANCELLED: 3,
        WaitEnd.TIMEOUT: 4,
        WaitEnd.DETACHED: INTERRUPTED,
    }[ended]


def _as_json(run: str, ended: WaitEnd, look: RunSnapshot, groups: list[FailureGroup], seconds: float) -> dict[str, Any]:
    from longshore.runs.watch.watcher import WaitEnd
    from longshore.ui.counts import numbers, rates
    from longshore.ui.estimate_words import estimate_json

    failed = [{"error_type": each.error_type, "exception": each.exception, "jobs": each.count} for each in groups]
    left = {"estimate": estimate_json(look.estimate)} if not look.finished else {"failures": failed}
    if ended is WaitEnd.GONE:
        left = {}
    return {
        "run": run,
        "ended": ended,
        **numbers(look.count),
        **rates(look.count),
        "watched_seconds": round(seconds, 1),
        **left,
    }


def _closing(
    run: str,
    settings: Settings,
    ended: WaitEnd,
    look: RunSnapshot,
    groups: list[FailureGroup],
    width: int | None,
    span: RunSpan | None,
) -> list[str]:
    from rich.markup import escape

    from longshore.runs.watch.watcher import WaitEnd
    from longshore.ui.estimate_words import time_left
    from longshore.ui.local.run_summary import failures
    from longshore.ui.program import program, queue_flag
    from longshore.ui.words import duration, rate

    count, flag = look.count, queue_flag(settings)
    if ended is WaitEnd.GONE:
        stood = f"{count.completed:,} completed, {count.failed:,} failed, {count.remaining:,} left"
        return [
            f"[red]✗[/red] run {escape(run)} is gone: its jobs have been pruned or removed, so how it ended is not "
            f"known. At the last look: {stood}."
        ]
    if not look.finished:
        done = count.total - count.remaining
        left = f", {time}" if (time := time_left(look.estimate)) else ""
        why = "The time is over" if ended is WaitEnd.TIMEOUT else "Not watching any more"
        again = escape(f"{program()} wait {run}{flag}")
        return [
            f"[yellow]{why}[/yellow]; the run goes on: {done:,} of {count.total:,} done{left}.",
            f"Watch again:  [cyan]{again}[/cyan]",
        ]
    colour, sign = (
        ("red", "✗")
        if count.failed or ended is WaitEnd.REJECTED
        else ("yellow", "!")
        if count.cancelled
        else ("green", "✓")
    )
    lines = [
        f"[{colour}]{sign}[/{colour}] run {escape(run)}: [bold]{count.completed:,} completed[/bold], "
        f"{count.failed:,} failed"
        + (f", {count.cancelled:,} cancelled" if count.cancelled else "")
        + (f" in {duration(span.seconds)} ({rate(span.jobs_per_hour / 3600)})" if span is not None else "")
    ]
    if groups:
        where = escape(f"--state failed --run {run}{flag}")
        lines += ["", *failures(groups, width), ""]
        lines += [f"Look closer:  [cyan]{program()} jobs {where}[/cyan]"]
        lines += [f"Try again:    [cyan]{program()} retry {where}[/cyan]"]
    return lines
