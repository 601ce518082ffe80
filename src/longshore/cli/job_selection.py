"""The selection of jobs that a command names, and the question before many of them are changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from longshore.cli.options import age, listed
from longshore.errors import UsageError
from longshore.job import State
from longshore.queue import Queue, Selection, each_job
from longshore.runs.control.bulk_action import BulkAction
from longshore.runs.control.job_selection import select_jobs
from longshore.ui.output import confirmed, note
from longshore.ui.words import counted


def selection(
    *,
    ids: Sequence[str] | None = None,
    run: str | None = None,
    kind: str | None = None,
    partition: str | None = None,
    state: str | None = None,
    error: str | None = None,
    older_than: str | None = None,
) -> Selection:
    """Return the selection that the options of a command describe."""
    return select_jobs(
        ids=ids or None,
        run=run,
        kind=listed(kind),
        partition=None if partition is None else [name.strip() for name in partition.split(",")],
        state=listed(state),
        error=error,
        older_than=age(older_than),
    )


def narrowed(chosen: Selection, action: BulkAction) -> Selection:
    """Return the selection with the states the verb can change. Raise `UsageError` without a condition."""
    if chosen == Selection():
        raise UsageError(
            f"Say which jobs to {action}: ids, or any of --run, --kind, --partition, --state, --error, --older-than."
        )
    return action.narrowed(chosen)


async def nothing_to(queue: Queue, chosen: Selection, verb: str) -> str:
    """Return why a selection is empty: there are no such jobs, or those named by id are in another state."""
    if chosen.ids is None:
        return f"No such jobs: nothing to {verb}."
    there = [job async for job in each_job(queue, Selection(ids=chosen.ids))]
    if any(job.state in (chosen.states or State) for job in there):
        # The state is right; another condition does not hold.
        return f"No such jobs: nothing to {verb}."
    states = ", ".join(f"job {job.id} is {job.state}" for job in there[:5]) + (", …" if len(there) > 5 else "")
    return f"{states.capitalize()}: nothing to {verb}."


def agreed(number: int, chosen: Selection, verb: str, *, yes: bool) -> bool:
    """Return whether the person agrees. Jobs named by id need no question.

    Raise `UsageError` without a terminal to ask at, unless `yes`.
    """
    if yes or chosen.ids is not None:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"This would {verb} {counted(number, 'job')}, and there is no terminal to ask at. Add --yes.")
    if confirmed(f"{verb.capitalize()} {counted(number, 'job')}?", sys.stderr):
        return True
    note("Nothing was changed.")
    return False
