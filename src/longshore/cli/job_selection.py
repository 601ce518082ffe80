"""The selection of jobs that a command names, and the question before many of them are changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from longshore.cli.bulk_verb import JobAction
from longshore.cli.options import age, listed
from longshore.errors import NotFoundError, UsageError
from longshore.job import State
from longshore.queue import Queue, Selection, each_job
from longshore.runs.open_queue import counts_of
from longshore.settings import Settings
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
    return Selection(
        run=run,
        ids=frozenset(ids) if ids else None,
        kinds=listed(kind),
        partitions=None if partition is None else frozenset(name.strip() for name in partition.split(",")),
        states=_states(state),
        error=error,
        older_than=age(older_than),
    )


def _states(text: str | None) -> frozenset[State] | None:
    names = listed(text)
    if names is None:
        return None
    for name in names:
        if name not in list(State):
            raise UsageError(f"There is no state '{name}'. The states are: {', '.join(State)}.")
    return frozenset(State(name) for name in names)


def narrowed(chosen: Selection, change: JobAction) -> Selection:
    """Return the selection with the states the verb can change. Raise `UsageError` without a condition."""
    verb, possible = change.verb, change.possible
    if chosen == Selection():
        raise UsageError(
            f"Say which jobs to {verb}: ids, or any of --run, --kind, --partition, --state, --error, --older-than."
        )
    if chosen.states is not None and not chosen.states <= possible:
        wrong = ", ".join(sorted(chosen.states - possible))
        raise UsageError(f"Jobs that are {wrong} cannot be changed by {verb}; those that are {_either(possible)} can.")
    states = chosen.states or (possible if chosen.ids else change.default)
    return msgspec.structs.replace(chosen, states=states)


async def size(queue: Queue, chosen: Selection, settings: Settings) -> int:
    """Return the number of selected jobs. Raise `NotFoundError` for a run or an id that does not exist."""
    if chosen.run is not None:
        await counts_of(queue, chosen.run, settings)
    if chosen.ids is not None:
        found = {job.id async for job in each_job(queue, Selection(ids=chosen.ids))}
        if missing := sorted(chosen.ids - found):
            raise NotFoundError(f"There is no job {', '.join(missing[:5])}. `longshore jobs` lists those there are.")
    if chosen.ids is None and chosen.error is None and chosen.older_than is None:
        # Counters answer at once, whatever the number of jobs.
        return sum(
            getattr(count, state)
            for count in await queue.stats(chosen.run)
            if (chosen.kinds is None or count.kind in chosen.kinds)
            and (chosen.partitions is None or count.partition in chosen.partitions)
            for state in chosen.states or State
        )
    total = 0
    async for _ in each_job(queue, chosen):
        total += 1
    return total


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


def _either(states: frozenset[State]) -> str:
    return " or ".join(sorted(states))
