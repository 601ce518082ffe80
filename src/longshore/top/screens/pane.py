"""A table that keeps its cursor on what it was on, while its lines come, change and go."""

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
"""What a column that takes what is left has at least, if it needs as much."""


@dataclass(frozen=True)
class PaneColumn:
    """One column."""

    name: str
    width: int | None = None
    """At most so wide, and no wider than what stands in it; None takes what the others leave, and several share it."""
    right: bool = False
    optional: bool = False
    """Left out as long as nothing stands in it."""
    both_ends: bool = False
    """Where it is too narrow, the middle is left out rather than the end."""


@dataclass(frozen=True)
class PaneRow:
    """One line: a name that stays, and a cell for each column."""

    key: str
    cells: tuple[Text, ...]

    def contains(self, text: str) -> bool:
        """Whether the text occurs in a cell."""
        return any(text in cell.plain.lower() for cell in self.cells)


def cell(text: str, style: str = "") -> Text:
    """Text of others, or of ours, as it may stand in a cell: one line, no orders to the terminal."""
    return Text(one_line(text, 500), style=style, no_wrap=True)


class Pane(DataTable[Text]):
    """Lines to choose from."""

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
        """The key of the line the cursor is on; None where there is none."""
        if not self._shown or not 0 <= self.cursor_row < len(self._shown):
            return None
        return self._shown[self.cursor_row].key

    def show(self, lines: Sequence[PaneRow], title: str = "") -> None:
        """The lines are these now."""
        self.border_title = title or None
        self._lines = tuple(lines)
        self._known = True
        self._fill()

    def filter(self, text: str) -> None:
        """Only lines in which this text occurs."""
        self._text = text.lower()
        self._fill()

    def on_resize(self, event: Resize) -> None:
        """Lay the columns out anew."""
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
        """The columns that are shown, by their place, and how wide each is without the space behind it."""
        for index, column in enumerate(self._all_columns):
            longest = max((line.cells[index].cell_len for line in lines), default=0)
            if longest or not column.optional:
                # They grow and do not shrink again, so that nothing jumps about.
                self._widest[index] = max(len(column.name), longest, self._widest.get(index, 0))
        shown = [(index, column) for index, column in enumerate(self._all_columns) if index in self._widest]
        widths = {index: min(self._widest[index], column.width) for index, column in shown if column.width is not None}
        room = self.scrollable_content_region.width - len(shown) - sum(widths.values())
        sharing = sorted((index for index, _ in shown if index not in widths), key=self._widest.__getitem__)
        for place, index in enumerate(sharing):
            # Those that need little get it, as long as enough is left for the others, and an even share at least.
            left = len(sharing) - place
            kept = sum(min(self._widest[other], _NARROWEST) for other in sharing[place + 1 :])
            most = room if left == 1 else min(self._widest[index], max(room - kept, room // left))
            widths[index] = max(most, 1)
            room -= widths[index]
        return tuple((index, widths[index]) for index, _ in shown)


def _fitted(text: Text, column: PaneColumn, width: int) -> Text:
    """The text in so many letters, and a space."""
    fitted = text.copy()
    if column.both_ends and text.cell_len > width:
        begin = (width - 1) // 2
        fitted = Text.assemble(text[:begin], "…", text[len(text) - (width - 1 - begin) :])
    fitted.truncate(width, overflow="ellipsis")
    if column.right:
        fitted.pad_left(width - fitted.cell_len)
    fitted.pad_right(1)
    return fitted
