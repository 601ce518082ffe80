"""A plot of the throughput over time."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from longshore.runs.estimate.throughput import ThroughputSpan
from longshore.top.throughput_columns import columns_of
from longshore.ui.words import duration, rate

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LABEL = len("59.9/min ")


class Plot(Widget):
    """Jobs per second over time, the oldest at the left."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._spans: tuple[ThroughputSpan, ...] = ()

    def show(self, spans: tuple[ThroughputSpan, ...]) -> None:
        """Show these spans."""
        self._spans = spans
        self.refresh()

    def render(self) -> Text:
        """Return the plot in the size of the widget."""
        width, height = self.size.width - _LABEL, self.size.height - 1
        if width < 10 or height < 1:
            return Text()
        back, columns = columns_of(self._spans, width)
        if not back:
            return Text("The throughput is shown in a moment.", style="dim")
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
    """Return the character of a column in this line, counted from below."""
    if not value or not most:
        return "▁" if value is not None and line == 1 else " "
    eighths = max(round(value / most * height * 8), 1) - (line - 1) * 8
    return _BLOCKS[min(max(eighths, 0), 8)]
