"""A table whose cursor stays on the same line while lines are added, changed and removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.widgets import DataTable

from longshore.ui.words import one_line

_NARROWEST = 13
"""The least width that a flexible column gets, if it needs that much."""


@dataclass(frozen=True)
class PaneColumn:
    """One column of a table."""

    name: str
    width: int | None = None
    """The greatest width; the column is no wider than its contents. None shares the width that the others leave."""
    right: bool = False
    optional: bool = False
    """Hidden while all its cells are empty."""
    both_ends: bool = False
    """If a text is too long, its middle is left out, not its end."""


@dataclass(frozen=True)
class PaneRow:
    """One line: a stable key, and a cell for each column."""

    key: str
    cells: tuple[Text, ...]

    def contains(self, text: str) -> bool:
        """Return whether a cell contains the text."""
        return any(text in cell.plain.lower() for cell in self.cells)


def cell(text: str, style: str = "") -> Text:
    """Return any text as a cell: on one line, without control characters."""
    return Text(one_line(text, 500), style=style, no_wrap=True)


class Pane(DataTable[Text]):
    """A table with a line cursor and a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "look", key_display="enter")]

    def __init__(self, columns: Sequence[PaneColumn], *, id: str, empty: str) -> None:  # noqa: A002
        super().__init__(id=id, cursor_type="row", cursor_foreground_priority="renderable", cell_padding=0)
        self._all_columns = tuple(columns)
        self._empty = empty
        self._lines: tuple[PaneRow, ...] = ()
        self._shown: tuple[PaneRow, ...] = ()
        self._laid_out: tuple[tuple[int, int], ...] = ()
        self._widest: dict[int, int] = {}
        self._text = ""
        self._known = False

    @property
    def chosen(self) -> str | None:
        """The key of the line under the cursor; None if there is no line."""
        if not self._shown or not 0 <= self.cursor_row < len(self._shown):
            return None
        return self._shown[self.cursor_row].key

    def show(self, lines: Sequence[PaneRow], title: str = "") -> None:
        """Show these lines."""
        self.border_title = title or None
        self._lines = tuple(lines)
        self._known = True
        self._fill()

    def filter(self, text: str) -> None:
        """Show only lines that contain this text."""
        self._text = text.lower()
        self._fill()

    def on_resize(self, event: Resize) -> None:
        """Lay out the columns for the new size."""
        del event
        self._widest.clear()
        self._fill()

    def _fill(self) -> None:
        if not self.is_mounted or not self.size.width:
            return
        lines = tuple(line for line in self._lines if line.contains(self._text)) if self._text else self._lines
        before, chosen = self._shown, self.chosen
        laid_out = self._layout(lines)
        same_places = laid_out == self._laid_out and [line.key for line in lines] == [line.key for line in before]
        self._shown = lines
        if same_places and lines:
            self._change(before)
            return
        top = self.scroll_y
        if laid_out != self._laid_out:
            self.clear(columns=True)
            for index, width in laid_out:
                column = self._all_columns[index]
                self.add_column(_fitted(Text(column.name), column, width), width=width + 1)
            self._laid_out = laid_out
        else:
            self.clear()
        for line in lines:
            self.add_row(*self._cells(line), key=line.key)
        self.show_cursor = bool(lines)
        if not lines:
            empty = self._empty if self._known else ""
            self.border_subtitle = "nothing matches the filter" if self._text and self._lines else empty
            return
        self.border_subtitle = None
        row = next((number for number, line in enumerate(lines) if line.key == chosen), 0)
        self.move_cursor(row=row, scroll=False)
        self.scroll_to(y=top, animate=False)

    def _change(self, before: Sequence[PaneRow]) -> None:
        for row, (old, new) in enumerate(zip(before, self._shown, strict=True)):
            if old == new:
                continue
            for column, made in enumerate(self._cells(new)):
                if made != self.get_cell_at(Coordinate(row, column)):
                    self.update_cell_at(Coordinate(row, column), made)

    def _cells(self, line: PaneRow) -> list[Text]:
        return [_fitted(line.cells[index], self._all_columns[index], width) for index, width in self._laid_out]

    def _layout(self, lines: Sequence[PaneRow]) -> tuple[tuple[int, int], ...]:
        """Return the index and the width of each visible column, without the space after it."""
        for index, column in enumerate(self._all_columns):
            longest = max((line.cells[index].cell_len for line in lines), default=0)
            if longest or not column.optional:
                # Columns only grow, so that the layout does not jump.
                self._widest[index] = max(len(column.name), longest, self._widest.get(index, 0))
        shown = [(index, column) for index, column in enumerate(self._all_columns) if index in self._widest]
        widths = {index: min(self._widest[index], column.width) for index, column in shown if column.width is not None}
        available = self.scrollable_content_region.width - len(shown) - sum(widths.values())
        sharing = sorted((index for index, _ in shown if index not in widths), key=self._widest.__getitem__)
        for position, index in enumerate(sharing):
            # A column gets the width it needs if enough is left for the others, and at least an equal share.
            left = len(sharing) - position
            reserved = sum(min(self._widest[other], _NARROWEST) for other in sharing[position + 1 :])
            most = available if left == 1 else min(self._widest[index], max(available - reserved, available // left))
            widths[index] = max(most, 1)
            available -= widths[index]
        return tuple((index, widths[index]) for index, _ in shown)


def _fitted(text: Text, column: PaneColumn, width: int) -> Text:
    """Return the text truncated or padded to `width` cells, and a space."""
    fitted = text.copy()
    if column.both_ends and text.cell_len > width:
        begin = (width - 1) // 2
        fitted = Text.assemble(text[:begin], "…", text[len(text) - (width - 1 - begin) :])
    fitted.truncate(width, overflow="ellipsis")
    if column.right:
        fitted.pad_left(width - fitted.cell_len)
    fitted.pad_right(1)
    return fitted
