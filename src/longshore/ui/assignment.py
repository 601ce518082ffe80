"""The assignment of partitions to workers, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.fleet.partitions.assignment import Shares

NO_PARTITIONS = "(helps the others)"


def show_assignment(shares: Shares, pending: Mapping[str, int] | None = None) -> None:
    """Print the assignment as a table, one row a worker; with the number of pending jobs if it is known."""
    from rich.console import Console

    from longshore.system.printable import printable
    from longshore.ui.tables import write_table

    columns = ["worker", "partitions", "has"]
    rows = [
        [str(number), printable(", ".join(share)) or NO_PARTITIONS, str(len(share))] for number, share in shares.items()
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

    # The partitions are the point of the table, so a long list is wrapped and not cut.
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(column, justify="left" if column == "partitions" else "right", no_wrap=column != "partitions")
    for number, names, *counts in rows:
        style = "dim" if names == NO_PARTITIONS else ""
        drawn.add_row(Text(number, style="cyan"), Text(names, style=style), *counts)
    console.print(drawn)
