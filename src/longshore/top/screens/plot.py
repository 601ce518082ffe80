"""Throughput over time, as a picture of blocks."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from longshore.runs.estimate.throughput import ThroughputSpan
from longshore.top.throughput_columns import columns_of
from longshore.ui.words import duration, rate

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LABEL = len("59.9/min ")


class Plot(Widget):
    """Jobs a second, the oldest left and now at the right."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._spans: tuple[ThroughputSpan, ...] = ()

    def show(self, spans: tuple[ThroughputSpan, ...]) -> None:
        """The past is this now."""
        self._spans = spans
        self.refresh()

    def render(self) -> Text:
        """The picture, as large as there is room."""
        width, height = self.size.width - _LABEL, self.size.height - 1
        if width < 10 or height < 1:
            return Text()
        back, columns = columns_of(self._spans, width)
        if not back:
            return Text("How fast it goes is known in a moment.", style="dim")
        most = max((value for value in columns if value is not None), default=0.0)
        picture = Text(no_wrap=True)
        for line in range(height, 0, -1):
            label = rate(most) if line == height and most else "0" if line == 1 else ""
            picture.append(f"{label:>{_LABEL - 1}} ", style="dim")
            picture.append("".join(_block(value, most, line, height) for value in columns), style="cyan")
            picture.append("\n")
        ago = f"{duration(back)} ago"
        picture.append(" " * _LABEL + ago + "now".rjust(width - len(ago)), style="dim")
        return picture


def _block(value: float | None, most: float, line: int, height: int) -> str:
    """What stands in this line, counted from below, of a column."""
    if not value or not most:
        return "▁" if value is not None and line == 1 else " "
    eighths = max(round(value / most * height * 8), 1) - (line - 1) * 8
    return _BLOCKS[min(max(eighths, 0), 8)]
