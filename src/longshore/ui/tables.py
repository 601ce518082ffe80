"""Tables for people: boxes, colour and a fitted width on a terminal; plain columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from longshore.system.printable import printable
from longshore.ui.output import write
from longshore.ui.words import one_line


def write_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> None:
    """Write a table; the columns in `right` are aligned to the right.

    On a narrow terminal the columns in `cut` become narrower first, and those in `keep`, which identify a row, last.
    Empty columns are left out. So are those in `drop`, whose text appears elsewhere, if little of them would be left.
    In a pipe the columns are plain and complete.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [columns, *rows]) for i in range(len(columns))]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console(highlight=False)
        shown = _shown(columns, rows, widths, drop, console.width)
        columns, rows = [columns[i] for i in shown], [[row[i] for i in shown] for row in rows]
        widths = _narrowed(columns, [widths[i] for i in shown], cut, keep, console.width)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for column, width in zip(columns, widths, strict=True):
            justify: Any = "right" if column in right else "left"
            table.add_column(one_line(column, width), justify=justify, no_wrap=True)
        for row in rows:
            cells = [one_line(cell, width) for cell, width in zip(row, widths, strict=True)]
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
        console.print(table)
        return
    for line in [columns, *rows]:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ]
        write("  ".join(cells).rstrip())


def _shown(
    columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], drop: Sequence[str], screen: int
) -> list[int]:
    """Return the indexes of the columns that fit."""
    shown = list(range(len(columns)))

    def over() -> int:
        return sum(widths[i] + 2 for i in shown) - screen

    if over() > 0:
        shown = [i for i in shown if any(row[i] for row in rows)]
    for i, column in enumerate(columns):
        if column in drop and i in shown and widths[i] - max(over(), 0) < min(widths[i], _WORTHWHILE):
            shown.remove(i)
    return shown


def _narrowed(
    columns: Sequence[str], widths: Sequence[int], cut: Sequence[str], keep: Sequence[str], screen: int
) -> list[int]:
    """Return the widths with which the table fits the screen: the columns in `cut` share what the others leave.

    If that is not enough, the widest columns become narrower: a short name is worth more than the end of a long text.
    """
    narrowed = list(widths)
    spare = screen - 2 * len(columns) - sum(w for column, w in zip(columns, widths, strict=True) if column not in cut)
    giving = sorted((i for i, column in enumerate(columns) if column in cut), key=lambda i: widths[i])
    for place, i in enumerate(giving):
        narrowed[i] = max(min(widths[i], spare // (len(giving) - place)), _NARROWEST)
        spare -= narrowed[i]
    over = sum(narrowed) + 2 * len(columns) - screen
    others = [i for i, column in enumerate(columns) if column not in keep]
    for those in (others, list(range(len(columns)))):
        while over > 0 and (widest := max(those, key=lambda i: narrowed[i], default=-1)) >= 0:
            if narrowed[widest] <= _NARROWEST:
                break
            narrowed[widest] -= 1
            over -= 1
    return narrowed


_NARROWEST = 8
_WORTHWHILE = 16
_STYLES = {"failed": "red", "completed": "green", "claimed": "cyan", "cancelled": "dim"}
