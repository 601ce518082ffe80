"""`longshore retry`: try failed jobs again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.queue import Selection
    from longshore.settings import Settings


def retry(
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
    """Give failed jobs all their attempts again. Cancelled ones too, where --state or an id says so."""
    from longshore.cli.selection import narrowed, selection
    from longshore.job import State
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    chosen = selection(
        ids=ids, run=run, kind=kind, partition=partition, state=state, error=error, older_than=older_than
    )
    possible = frozenset({State.FAILED, State.CANCELLED})
    asyncio.run(_retry(settings, narrowed(chosen, "retry", possible, frozenset({State.FAILED})), yes=yes))


async def _retry(settings: Settings, chosen: Selection, *, yes: bool) -> None:
    from longshore.cli.opened import opened_existing
    from longshore.cli.output import counted, write
    from longshore.cli.selection import agreed, nothing_to, size

    async with opened_existing(settings) as queue:
        number = await size(queue, chosen, settings)
        if not number:
            write(await nothing_to(queue, chosen, "retry"))
        elif agreed(number, chosen, "retry", yes=yes):
            changed = await queue.retry(chosen)
            write(f"{counted(changed, 'job')} {'is' if changed == 1 else 'are'} pending again.")
