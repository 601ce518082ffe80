"""The verbs that change a selection of jobs: their common options, and the question before the change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.queue import Queue, Selection
    from longshore.runs.control.bulk_action import BulkAction
    from longshore.settings import Settings

    JobChange = Callable[[Settings, Queue, Selection], Awaitable[int]]


def command(verb: str, change: JobChange, meaning: str) -> Callable[..., None]:
    """Return the verb of a bulk action as a function of its options, with `meaning` as its help."""

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
        from longshore.runs.control.bulk_action import BulkAction
        from longshore.settings import resolve

        settings = resolve({"queue": queue, "debug": debug})
        chosen = selection(
            ids=ids, run=run, kind=kind, partition=partition, state=state, error=error, older_than=older_than
        )
        action = BulkAction(verb)
        asyncio.run(ask_and_change(action, change, settings, narrowed(chosen, action), yes=yes))

    carry_out.__name__ = verb
    carry_out.__doc__ = meaning
    return carry_out


async def ask_and_change(
    action: BulkAction, change: JobChange, settings: Settings, chosen: Selection, *, yes: bool
) -> None:
    """Count the selected jobs, ask the person unless `yes`, change the jobs, and say how many were changed."""
    from longshore.cli.job_selection import agreed, nothing_to
    from longshore.runs.control.job_selection import selected_number
    from longshore.runs.open_queue import open_existing
    from longshore.ui.output import write
    from longshore.ui.words import counted

    async with open_existing(settings) as queue:
        number = await selected_number(queue, chosen, settings)
        if not number:
            write(await nothing_to(queue, chosen, action))
        elif agreed(number, chosen, action, yes=yes):
            changed = await change(settings, queue, chosen)
            write(f"{counted(changed, 'job')} {'is' if changed == 1 else 'are'} {action.made}.")
