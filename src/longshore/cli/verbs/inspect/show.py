"""`longshore show`: show everything about one job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.job import Attempt, Job


SHOWN_LINES = 15
"""Lines of a traceback that are shown."""


def show(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The job's id, as `longshore jobs` lists it.", show_default=False)
    ],
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Show everything about one job: payload, result, why it failed, and every earlier attempt."""
    from longshore.runs.control.job_selection import find_job
    from longshore.settings import resolve
    from longshore.ui.output import write_json

    settings = resolve({"queue": queue, "debug": debug})
    found, history = asyncio.run(find_job(settings, job))
    if json:
        write_json(_whole(found, history))
    else:
        _print(found, history)


def _whole(job: Job, history: list[Attempt]) -> dict[str, Any]:
    import msgspec

    from longshore.handlers.envelope import envelope
    from longshore.job import FINISHED

    whole: dict[str, Any] = msgspec.to_builtins(job)
    whole["history"] = msgspec.to_builtins(history)
    whole["envelope"] = envelope(job) if job.state in FINISHED else None
    _say_once(whole)
    return whole


def _say_once(whole: dict[str, Any]) -> None:
    """Keep each traceback in one place: the envelope, else the last failure, else the latest attempt that had it."""
    seen = {(whole["envelope"] or {}).get("traceback")}
    for failure in [whole["failure"], *(attempt["failure"] for attempt in reversed(whole["history"]))]:
        if failure and "traceback" in failure:
            if failure["traceback"] in seen:
                del failure["traceback"]
            else:
                seen.add(failure["traceback"])


def _print(job: Job, history: list[Attempt]) -> None:
    import msgspec

    from longshore.job import State
    from longshore.system.printable import printable
    from longshore.ui.output import write
    from longshore.ui.words import duration, moment, one_line, since

    facts = {
        "job": job.id,
        "run": job.run,
        "kind": job.kind,
        "key": job.key,
        "state": job.state.value,
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "priority": str(job.priority) if job.priority else "",
        "partition": job.partition,
        "not before": moment(job.not_before),
        "submitted": f"{moment(job.submitted_at)} ({since(job.submitted_at)})",
        "settled": moment(job.settled_at),
        "took": "" if job.seconds is None else duration(job.seconds),
        "worker": job.worker or "",
        "handlers": job.handler_version or (job.failure.handler_version if job.failure else ""),
    }
    for name, value in facts.items():
        if value:
            write(f"{name:<11} {printable(value)}")
    write(f"\npayload\n{_indented(msgspec.json.format(msgspec.json.encode(job.payload)).decode())}")
    if job.state is State.COMPLETED:
        write(f"\nresult\n{_indented(msgspec.json.format(msgspec.json.encode(job.result)).decode())}")
    if job.failure and job.state is not State.COMPLETED:
        what = printable(f"{job.failure.error_type} ({job.failure.exception})")
        write(f"\nlast failure: {what}\n{_indented(job.failure.message)}")
    if history:
        write("\nhistory")
        for number, attempt in enumerate(history, 1):
            took = "" if attempt.seconds is None else f", after {duration(attempt.seconds)}"
            what = f"{attempt.failure.error_type}: {attempt.failure.message}"
            write(f"  {number}. {moment(attempt.ended_at)} on {printable(attempt.worker)}{took}\n     {one_line(what)}")
    if job.failure and job.failure.traceback and job.state is not State.COMPLETED:
        _print_traceback(job.failure.traceback)


def _print_traceback(traceback: str) -> None:
    from longshore.observe.failure_fields import own_frames_first
    from longshore.ui.output import write

    # The last lines of a traceback name the error, and a person reads the end of the screen first.
    lines = own_frames_first(traceback).splitlines()
    cut = len(lines) > SHOWN_LINES
    whole = len(lines) == len(traceback.rstrip().splitlines())
    more = "" if whole else " (your code; --json shows all frames)"
    if cut:
        more = f" (the last {SHOWN_LINES} of {len(lines)} lines; --json shows all)"
    write(f"\ntraceback{more}\n" + "\n".join(f"  {line}" for line in lines[-SHOWN_LINES:]))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
