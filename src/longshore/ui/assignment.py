"""The assignment of partitions to workers, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.fleet.partitions.assignment import Shares

NONE_OF_ITS_OWN = "(helps the others)"


def show_assignment(shares: Shares, pending: Mapping[str, int] | None = None) -> None:
    """The assignment as a table for people, a worker a row; with the jobs pending for each, where they are known."""
    from rich.console import Console

    from longshore.ui.tables import write_table
    from longshore.ui.words import printable

    columns = ["worker", "partitions", "has"]
    rows = [
        [str(number), printable(", ".join(share)) or NONE_OF_ITS_OWN, str(len(share))]
        for number, share in shares.items()
    ]
    if pending is not None:
        columns.append("pending")
        for row, share in zip(rows, shares.values(), strict=True):
            row.append(f"{sum(pending.get(partition, 0) for partition in share):,}")
    console = Console(highlight=False)
    if not console.is_terminal:
        write_table(columns, rows, right=("worker", "has", "pending"))
        return
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    # What each worker has is the point of it, so a long list is wrapped rather than cut.
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(column, justify="left" if column == "partitions" else "right", no_wrap=column != "partitions")
    for number, names, *counts in rows:
        style = "dim" if names == NONE_OF_ITS_OWN else ""
        drawn.add_row(Text(number, style="cyan"), Text(names, style=style), *counts)
    console.print(drawn)
