"""The first lines of the screen: the name of the run or queue, its progress, and the time left."""

from __future__ import annotations

import msgspec
from rich.text import Text
from textual.widget import Widget

from longshore.queue import Count
from longshore.runs.control.pause import EVERYTHING
from longshore.runs.estimate.estimate import Binding
from longshore.runs.watch.blockers import Blockers
from longshore.top.figures import QueueFigures
from longshore.ui.estimate_words import binding_words, time_left
from longshore.ui.notices import notices
from longshore.ui.words import left_words, one_line, rate, set_aside

_NOTICES = 2


class HeaderBar(Widget):
    """Three lines, the title, the bar and the counts, and a line for each of the first notices."""

    def __init__(self, where: str, run: str | None, flag: str = "") -> None:
        """`flag` is the option with which a command finds the queue."""
        super().__init__(id="head")
        self._where = where
        self._flag = flag
        self._run = run
        self._board: QueueFigures | None = None

    def show(self, board: QueueFigures) -> None:
        """Show these figures."""
        self._board = board
        self.refresh(layout=True)

    def render(self) -> Text:
        """Return the lines, as wide as the screen."""
        width = self.size.width
        name = "all runs" if self._run is None else f"run {self._run}" if self._run else "jobs without a run"
        lines = [_spread(Text(one_line(name, width), style="bold"), Text(one_line(self._where, width), "dim"), width)]
        if self._board is None:
            lines.append(Text("Looking…", style="dim"))
        elif not self._board.count.total:
            lines.append(Text("There are no jobs yet. `longshore submit` puts some in.", style="dim"))
        else:
            lines += [
                _bar(self._board, width),
                _spread(_counts(self._board.count), _hint(self._board, self._flag), width),
            ]
            # The hint tells of a pause.
            others = msgspec.structs.replace(self._board.blockers, paused={})
            told = list(notices(others, flag=self._flag).values())[:_NOTICES]
            lines += [Text(one_line(line, width), style="yellow") for line in told]
            if (rejected := self._board.rejected) is not None:
                whose = "this queue" if self._run is None else "this run"
                lines.append(Text(one_line(set_aside(rejected.count, rejected.where, whose), width), style="red"))
        for line in lines:
            line.no_wrap = True
        return Text("\n").join(lines)


def _bar(board: QueueFigures, width: int) -> Text:
    count = board.count
    done = count.total - count.remaining
    facts = [f"{done:,}/{count.total:,}", f"{100 * done // count.total} %"]
    if board.per_second and count.remaining:
        facts.append(rate(board.per_second))
    facts.append(_left(board))
    right = "  ".join(fact for fact in facts if fact)
    cells = max(width - len(right) - 2, 8)
    filled = cells * done // count.total
    failed = min(-(-cells * count.failed // count.total), filled)
    bar = Text("━" * (filled - failed), style="green" if not count.remaining and board.rejected is None else "cyan")
    bar.append("━" * failed, style="red").append("┄" * (cells - filled), style="dim")
    return bar.append(f"  {right}", style="bold")


def _left(board: QueueFigures) -> str:
    if board.being_submitted:
        return "still being submitted"
    if not board.count.remaining:
        return "finished"
    if board.blockers.paused.keys() & {board.run, EVERYTHING}:
        return "paused"
    if board.estimate is not None:
        return time_left(board.estimate)
    return "" if board.left is None else left_words(max(board.left, 1.0))


def _counts(count: Count) -> Text:
    line = Text()
    styles = {"pending": "", "claimed": "cyan", "completed": "green", "failed": "red", "cancelled": "yellow"}
    for name, style in styles.items():
        number: int = getattr(count, name)
        if number or name in {"pending", "claimed", "completed"}:
            line.append("  " if line else "").append(f"{number:,}", style=style if number else "dim")
            line.append(f" {name}", style="" if number else "dim")
    return line


def _hint(board: QueueFigures, flag: str = "") -> Text:
    if board.blockers.paused and board.count.remaining:
        lines = notices(Blockers(paused=board.blockers.paused), flag=flag)
        return Text(next(iter(lines.values())), style="yellow")
    estimate = board.estimate
    if estimate is None or not board.count.remaining:
        return Text()
    if estimate.binds is None or estimate.binds is Binding.NOBODY:
        return Text(estimate.unknown, style="yellow" if estimate.binds else "dim")
    what = binding_words(estimate).partition(": ")[0]  # a host may have a port
    return Text(f"what binds: {what}", style="yellow" if estimate.binds is Binding.HOST else "dim")


def _spread(left: Text, right: Text, width: int) -> Text:
    """Return a line with one text at each end; the right one is truncated, or left out, if the line is too short."""
    available = width - left.cell_len - 2
    if available < 10:
        return left
    right = right.copy()
    right.truncate(available, overflow="ellipsis")
    return Text.assemble(left, " " * (width - left.cell_len - right.cell_len), right)
