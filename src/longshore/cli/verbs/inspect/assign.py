"""`longshore assign`: show which worker has which partitions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import InputFileError, NotFoundError, UsageError

if TYPE_CHECKING:
    from longshore.fleet.partitions.assignment import Shares
    from longshore.fleet.partitions.assignment_table import AssignmentTable
    from longshore.settings import Settings


def assign(
    workers: Annotated[
        str | None, typer.Option(metavar="N", help=options.meaning("workers"), show_default=False)
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            metavar="P,…",
            help="The partitions to assign; us-states is the 50 states of the US and DC.",
            show_default=False,
        ),
    ] = None,
    partitions_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with one partition a line.", show_default=False)
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The partitions this run has jobs of; shows how many are pending.", show_default=False
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A fixed table (TOML or JSON) to check and show instead.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Show which worker has which partitions, and check it: every partition has one worker, and only one.

    The same partitions and workers always give the same assignment; one more or one fewer worker moves as few
    partitions as possible. A fixed table is shown as it is, or every error in it is named.
    """
    from longshore.fleet.partitions.assignment import assign as share_out
    from longshore.fleet.partitions.assignment_table import problems_text, read_table
    from longshore.settings import resolve
    from longshore.ui.assignment import show_assignment

    settings = resolve({"workers": workers, "queue": queue, "debug": debug})
    number = settings.workers
    fixed = None if table is None else read_table(table)
    pending = None if run is None else asyncio.run(_pending(settings, run))
    wanted = _wanted(partitions, partitions_file, pending, fixed)
    if fixed is None:
        shares = share_out(wanted, range(number))
    else:
        if workers is None and "workers" not in settings.sources:
            number = max(fixed.rows) + 1
        if problems := fixed.problems(wanted, number):
            raise InputFileError(problems_text(table or Path(), problems))
        shares = fixed.assign(wanted, range(number))
    if json:
        _write_json(shares, pending)
    else:
        show_assignment(shares, pending)
        _write_summary(shares, fixed)


async def _pending(settings: Settings, run: str) -> dict[str, int]:
    """Return the number of pending jobs of each partition of a run. Jobs without a partition belong to no worker."""
    from longshore.runs.open_queue import counts_of, open_existing

    pending: dict[str, int] = {}
    async with open_existing(settings) as queue:
        for count in await counts_of(queue, run, settings):
            if count.partition:
                pending[count.partition] = pending.get(count.partition, 0) + count.pending
    if not pending:
        raise NotFoundError(f"No job of run '{run}' has a partition. `longshore submit --partition P` gives them one.")
    return pending


def _wanted(
    listed: str | None, file: Path | None, pending: Mapping[str, int] | None, table: AssignmentTable | None
) -> tuple[str, ...]:
    """Return the partitions to assign: of a list or a file, else of the run, else of the table."""
    from longshore.fleet.partitions.assignment_table import listed_partitions, read_partitions

    if listed is not None and file is not None:
        raise UsageError("Both --partitions and --partitions-file say what to assign. Give one of them.")
    if listed is not None:
        return listed_partitions(listed)
    if file is not None:
        return read_partitions(file)
    if pending is not None:
        return tuple(sorted(pending))
    if table is not None:
        return table.partitions
    raise UsageError(
        "Which partitions? Name them with --partitions CA,TX (or us-states), --partitions-file FILE, --run ID or "
        "--table FILE."
    )


def _write_json(shares: Shares, pending: Mapping[str, int] | None) -> None:
    from longshore.ui.output import write_json

    rows = []
    for number, share in shares.items():
        known = {} if pending is None else {"pending": sum(pending.get(partition, 0) for partition in share)}
        rows.append({"worker": number, "partitions": list(share), **known})
    write_json({"workers": len(shares), "partitions": sum(len(share) for share in shares.values()), "assigned": rows})


def _write_summary(shares: Shares, table: AssignmentTable | None) -> None:
    from longshore.fleet.partitions.assignment import assign as share_out
    from longshore.fleet.partitions.assignment import moved
    from longshore.ui.output import write
    from longshore.ui.words import counted

    partitions = [partition for share in shares.values() for partition in share]
    write(
        f"{counted(len(partitions), 'partition')} on {counted(len(shares), 'worker')}: {_sizes(shares)}. "
        "Every partition has exactly one worker."
    )
    if table is None:
        moves = moved(shares, share_out(partitions, range(len(shares) + 1)))
        write(f"One more worker would move {moves} of them ({100 * moves / len(partitions):.0f} %).")


def _sizes(shares: Shares) -> str:
    """Return how many partitions each worker has: `5 each, 1 has 6`, or `1 to 9 each` if they differ more."""
    sizes = Counter(len(share) for share in shares.values())
    (usual, times), *others = sizes.most_common(2)
    if len(sizes) > 2 or 2 * times <= len(shares):
        return f"{min(sizes)} to {max(sizes)} each"
    exceptions = [f"{workers} {'has' if workers == 1 else 'have'} {size or 'none'}" for size, workers in others]
    return ", ".join([f"{usual or 'none'} each", *exceptions])
