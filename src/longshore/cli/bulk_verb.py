"""The verbs that change a selection of jobs: their common options, and the question before the change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.job import State

if TYPE_CHECKING:
    from longshore.queue import Queue, Selection
    from longshore.settings import Settings


@dataclass(frozen=True, kw_only=True)
class JobAction:
    """A change that one of these verbs makes to a selection of jobs."""

    verb: str
    made: str
    """The state of the jobs afterwards, as in "3 jobs are cancelled"."""
    possible: frozenset[State]
    """The states it can change."""
    default: frozenset[State]
    """The states it changes if neither a state nor a job is named."""
    change: Callable[[Settings, Queue, Selection], Awaitable[int]]


def command(change: JobAction, meaning: str) -> Callable[..., None]:
    """Return the verb as a function of its options, with `meaning` as its help."""

    def carry_out(
        ids: Annotated[list[str] | None, typer.Argument(metavar="JOB", help="Jobs by their ids.")] = None,
        run: options.Run = None,
        kind: options.Kind = None,
        partition: options.Partition = None,
        state: options.StateOption = None,
        error: options.Error = None,
        older_than: options.OlderThan = None,
        yes: options.Yes = False,
        queue: options.Queue = None,
        debug: options.Debug = None,
    ) -> None:
        from longshore.cli.job_selection import narrowed, selection
        from longshore.settings import resolve

        settings = resolve({"queue": queue, "debug": debug})
        chosen = selection(
            ids=ids, run=run, kind=kind, partition=partition, state=state, error=error, older_than=older_than
        )
        asyncio.run(_carry_out(change, settings, narrowed(chosen, change), yes=yes))

    carry_out.__name__ = change.verb
    carry_out.__doc__ = meaning
    return carry_out


async def _carry_out(change: JobAction, settings: Settings, chosen: Selection, *, yes: bool) -> None:
    from longshore.cli.job_selection import agreed, nothing_to, size
    from longshore.runs.open_queue import open_existing
    from longshore.ui.output import write
    from longshore.ui.words import counted

    async with open_existing(settings) as queue:
        number = await size(queue, chosen, settings)
        if not number:
            write(await nothing_to(queue, chosen, change.verb))
        elif agreed(number, chosen, change.verb, yes=yes):
            changed = await change.change(settings, queue, chosen)
            write(f"{counted(changed, 'job')} {'is' if changed == 1 else 'are'} {change.made}.")
