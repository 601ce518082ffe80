"""The view of a running fleet: a table that changes in place on a terminal, a line every ten seconds in a pipe."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from longshore.fleet.supervise.supervisor import GRACE, Phase, Stop
from longshore.ui.estimate_words import short_estimate_line, time_left
from longshore.ui.fleet.board import FleetBoard, FleetRow
from longshore.ui.live_view import LivePicture, PipedLines, can_redraw
from longshore.ui.words import counted, left_words, one_line, rate

EVERY = 10.0
"""Seconds between two lines in a pipe."""
WIDEST = 120
_AROUND = 10
"""Lines above and below the rows, including one for the cursor."""
_HINTS = {
    Stop.NOT: "Ctrl-C, or `longshore stop` elsewhere, finishes what is under way and stops. Logs: logs/",
    Stop.DRAIN: "Ctrl-C again gives back what is under way instead of finishing it. Logs: logs/",
    Stop.RELEASE: f"Giving back what is under way; {GRACE:.0f} s at most. Logs: logs/",
}
_WIDE = 100
"""Screen width from which the figures have fixed places."""


class FleetView(AbstractContextManager["FleetView"], Protocol):
    """A view of a fleet while it runs."""

    def show(self, board: FleetBoard) -> None:
        """Show the figures of the fleet."""

    def say(self, text: str) -> None:
        """Write a sentence without disturbing the rest."""


def fleet_view(to: Console) -> FleetView:
    """Return the table for a terminal, the lines for a pipe."""
    return _Table(to) if can_redraw(to) else _Lines(to, EVERY)


def progress_line(board: FleetBoard) -> str:
    """Return the progress in one line."""
    count = board.count
    failed = f"{count.failed:,} failed" if count.failed else ""
    restarts = counted(board.restarts, "restart") if board.restarts else ""
    workers, draining = _running(board), board.phases[Phase.DRAINING]
    working = counted(workers, "worker") if workers or not (board.paused or draining) else ""
    paused = f"{len(board.paused):,} paused" if board.paused else ""
    stopping = f"{draining:,} draining" if draining else ""
    done = f"{_done(board):,} of {count.total:,} done"
    left = time_left(board.estimate) if board.estimate is not None and _foreseeable(board) else _left(board)
    proxies = "proxies rest" if board.proxies_rest else ""
    facts = [done, failed, _speed(board), left, working, paused, proxies, stopping, restarts]
    return ", ".join(fact for fact in facts if fact)


def picture(board: FleetBoard, width: int, height: int) -> RenderableType:
    """Return the whole view for a screen of this size."""
    rows = board.rows()
    room = max(height - _AROUND - len(board.notices), 2)
    shown = rows if len(rows) <= room else rows[: room - 1]
    parts: list[RenderableType] = [_head(board, width), _state(board)]
    if board.estimate is not None and _foreseeable(board):
        parts.append(Text(short_estimate_line(board.estimate), no_wrap=True, overflow="ellipsis"))
    parts += [Text(line, style="yellow", no_wrap=True, overflow="ellipsis") for line in board.notices.values()]
    parts.append(_rows(shown, board, width))
    if len(shown) < len(rows):
        parts.append(Text(f"and {len(rows) - len(shown)} more", style="dim"))
    parts.append(Text(_HINTS[board.asked], style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


class _Table(LivePicture):
    def show(self, board: FleetBoard) -> None:
        self.draw(picture(board, min(self._to.width, WIDEST), self._to.height))


class _Lines(PipedLines):
    def show(self, board: FleetBoard) -> None:
        self.say_when_due(lambda: progress_line(board))
        self.say_new(board.notices)


def _head(board: FleetBoard, width: int) -> RenderableType:
    count = board.count
    speed = _speed(board)
    facts = [
        f"{_done(board):,}/{count.total:,}",
        f"{100 * _done(board) // count.total:>3} %" if count.total else "",
        speed.rjust(_RATE) if width >= _WIDE else speed,
        _left(board).ljust(_LEFT) if width >= _WIDE else _left(board),
    ]
    right = Text("  ".join(fact for fact in facts if fact), style="bold")
    title = Text(board.title, style="bold cyan", no_wrap=True, overflow="ellipsis")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, max_width=width // 3)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    bar = max(width - min(len(board.title), width // 3) - right.cell_len - 5, 8)
    grid.add_row(
        title,
        _Bar(_done(board), count.total, bar),
        right,
    )
    return grid


class _Bar:
    """A progress bar whose done and open parts differ without colours too."""

    def __init__(self, done: int, total: int, width: int) -> None:
        self._done = width * done // total if total else 0
        self._open = width - self._done

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(self._done + self._open, self._done + self._open)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        done, open_ = "#-" if options.ascii_only else "━┄"
        yield Segment(done * self._done, Style(color="cyan"))
        yield Segment(open_ * self._open, Style(dim=True))


def _state(board: FleetBoard) -> Text:
    phases, paused = board.phases, len(board.paused)
    state = Text(no_wrap=True, overflow="ellipsis")
    words = [(phases[phase] - paused * (phase is Phase.RUNNING), phase.value, "") for phase in Phase]
    # Beside the running workers, which would otherwise include them.
    words.insert(list(Phase).index(Phase.RUNNING) + 1, (paused, "paused", "bold yellow"))
    for number, word, style in words:
        if number:
            state.append(", " if state else "").append(f"{number:,} {word}", style=style)
    if board.proxies_rest:
        state.append(f"  proxies: {board.proxies_rest}", style="bold yellow")
    if board.restarts:
        state.append(f"  {counted(board.restarts, 'restart')}", style="yellow")
    if board.count.failed:
        state.append(f"  {board.count.failed:,} failed", style="red")
    return state


def _rows(rows: list[FleetRow], board: FleetBoard, width: int) -> Table:
    partitioned = board.shares is not None
    names = 18 if width >= 100 else 12
    figures = [_figures(row) for row in rows]
    # At least as wide as the figures usually become, so that they keep their places.
    widths = [max(least, *(len(cells[i]) for cells in figures)) for i, least in enumerate(_FIGURES.values())]
    # The job gets the width that the other columns leave; each has a space on either side.
    job = max(width - sum(widths) - 6 - (names + 2) * partitioned - 2 * (len(widths) + 2), 8)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("worker", justify="right", no_wrap=True, width=6)
    if partitioned:
        table.add_column("partitions", no_wrap=True, width=names)
    table.add_column("current job", no_wrap=True, width=job)
    for head, each in zip(_FIGURES, widths, strict=True):
        table.add_column(head, justify="right", no_wrap=True, width=each)
    for row, (done, failed, speed, restarts, memory) in zip(rows, figures, strict=True):
        cells = [Text(row.name.rpartition(" ")[2], style="cyan")]
        cells += [Text(_shortened(row, names), style="" if row.owned else "dim")] if partitioned else []
        cells += [
            _doing(row, job),
            Text(done),
            Text(failed, style="red" if row.failed else "dim"),
            Text(speed, style="cyan"),
            Text(restarts, style="yellow" if row.restarts else "dim"),
            Text(memory),
        ]
        table.add_row(*cells)
    return table


_RATE = len("59.9/min")
_LEFT = len("59 min 59 s left")
_FIGURES = {"done": 6, "failed": 6, "rate": _RATE, "restarts": 8, "memory": len("999 MB")}


def _figures(row: FleetRow) -> tuple[str, ...]:
    return (
        f"{row.done:,}",
        f"{row.failed:,}",
        rate(row.per_second) if row.per_second and not row.trouble else "",
        f"{row.restarts:,}",
        f"{row.memory / 2**20:,.0f} MB" if row.memory is not None else "",
    )


_STYLES = {
    Phase.WAITING: "dim",
    Phase.RESTARTING: "yellow",
    Phase.DRAINING: "yellow",
    Phase.ENDED: "dim",
    Phase.GIVEN_UP: "bold red",
}


def _doing(row: FleetRow, width: int) -> Text:
    if row.trouble:
        return Text(one_line(row.trouble, width), style="yellow")
    phase = "" if row.phase is Phase.RUNNING else row.phase.value
    before, after = f"{phase}: " if phase else "", f" +{row.under_way - 1}" if row.under_way > 1 else ""
    if row.job:
        return Text(before + _tailed(row.job, width - len(before + after)) + after, style=_STYLES.get(row.phase, ""))
    return Text(phase or "–", style=_STYLES.get(row.phase, "dim"))


def _tailed(job: str, width: int) -> str:
    """Return the job's name in `width` characters: its beginning and its end, which differ between jobs."""
    text = " ".join(job.split()).removeprefix("https://").removeprefix("http://")
    if len(text) <= width:
        return text
    tail = max((width - 1) // 2, 1)
    return f"{text[: max(width - 1 - tail, 0)]}…{text[-tail:]}"


def _shortened(row: FleetRow, width: int) -> str:
    """Return as many names as fit, and the number of the others."""
    if not row.owned:
        return "none"
    names = list(row.partitions)
    for shown in range(len(names), 0, -1):
        text = " ".join(names[:shown]) + _more(row.owned - shown)
        if len(text) <= width:
            return text
    more = _more(row.owned - 1)
    return one_line(names[0], width - len(more)) + more


def _more(number: int) -> str:
    return f" +{number:,}" if number else ""


def _done(board: FleetBoard) -> int:
    return board.count.total - board.count.remaining


def _running(board: FleetBoard) -> int:
    return board.phases[Phase.RUNNING] - len(board.paused)


def _all_paused(board: FleetBoard) -> bool:
    return bool(board.paused) and not _running(board)


def _speed(board: FleetBoard) -> str:
    return rate(board.pace.per_second) if board.pace.per_second and not _all_paused(board) else ""


def _left(board: FleetBoard) -> str:
    """Return the time left at the current rate, if there is no estimate."""
    seconds = board.pace.seconds_left(board.count.remaining)
    if seconds is None or board.estimate is not None or not _foreseeable(board):
        return ""
    return left_words(seconds)


def _foreseeable(board: FleetBoard) -> bool:
    """Return whether the time left can be estimated: a fleet that begins no jobs has no current rate."""
    return bool(board.count.remaining) and board.asked is Stop.NOT and not _all_paused(board)
