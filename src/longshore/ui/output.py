"""What commands print: JSON for programs, tables for people; boxes, colour and width only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec


def write(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """A line for the person at the terminal, on standard error, so that it never gets into a pipe."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def write_json(value: Any) -> None:
    """One JSON value on standard output."""
    write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def write_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> None:
    """A table; the columns in `right` are numbers.

    On a narrow terminal those in `cut` give way first, and those in `keep`, by which rows are told apart, last; columns
    that are empty are left out, and so are those in `drop`, which are said elsewhere, where little would be left of
    them. In a pipe: plain columns, whole and uncut.
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
    """The places of the columns there is room for."""
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
    """The widths with which the table fits the screen: those in `cut` share what the others leave.

    Where that is not enough, the widest give way: a short name is worth more than the end of a long text.
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


_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""What moves the cursor, colours the screen or turns the direction of writing."""
_SHOWN = dict.fromkeys(_CONTROLS) | {ord(sign): " " for sign in _BLANKS}


def printable(text: str) -> str:
    """Text of others (a name, a key, a message) as it may go to a screen: one line, and no orders to the terminal."""
    return text.translate(_SHOWN)


def one_line(text: str, limit: int = 200) -> str:
    """Text without line breaks, cut to a length."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip("…") + "…"


def moment(instant: float | None) -> str:
    """A point in time, in the machine's own zone."""
    if instant is None:
        return ""
    return datetime.fromtimestamp(instant, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def about(seconds: float) -> str:
    """A duration in one figure, for a narrow column: `42 s`, `3 min`, `5 h`, `2 days`."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.0f} days"


def since(instant: float) -> str:
    """How long ago, roughly."""
    return f"{duration(max(time.time() - instant, 0))} ago"


def duration(seconds: float) -> str:
    """A duration as a person says it: `4.2 s`, `3 min 10 s`, `2 h 05 min`, `3 days 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


def left_words(seconds: float, soonest: float | None = None) -> str:
    """The time left as a person says it: `3 min 10 s left`, or with `soonest`: `2 min 05 s to 3 min 10 s left`."""
    # The last jobs are often the slow ones; tenths of a second would promise too much.
    if seconds < 1:
        return "nearly done"
    begin = "" if soonest is None else f"{duration(soonest) if soonest >= 1 else '1 s'} to "
    return f"{begin}{duration(seconds)} left"


def counted(number: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
