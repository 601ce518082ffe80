"""The view of `longshore wait`: lines that change in place on a terminal, a line every few seconds in a pipe."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from longshore.runs.estimate.estimate import Estimate
from longshore.runs.watch.blockers import Blockers
from longshore.runs.watch.watcher import RunSnapshot
from longshore.system.printable import printable
from longshore.ui.estimate_words import binding_words, time_left
from longshore.ui.live_view import LivePicture, PipedLines, can_redraw
from longshore.ui.notices import notices
from longshore.ui.words import counted, not_seen, rate

EVERY = 5.0
"""Seconds between two lines in a pipe."""
_GROUPS = 3
_HINT = "Ctrl-C stops watching; the run goes on."


class WaitView(AbstractContextManager["WaitView"], Protocol):
    """A view of a run that is watched."""

    def show(self, look: RunSnapshot, held: Blockers) -> None:
        """Show the state of the run, and what blocks it."""

    def say(self, text: str) -> None:
        """Write a sentence without disturbing the rest."""


def wait_view(to: Console, title: str, flag: str = "") -> WaitView:
    """Return the picture for a terminal, the lines for a pipe. `flag` is the option that names the queue."""
    return _Picture(to, title, flag) if can_redraw(to) else _Lines(to, flag)


def progress_line(look: RunSnapshot, found: Estimate) -> str:
    """Return the progress in one line."""
    count = look.count
    facts = [
        f"{count.total - count.remaining:,} of {count.total:,} done",
        _speed(look),
        _left(look, found),
        failing(look),
        _workers(look),
    ]
    return ", ".join(fact for fact in facts if fact)


def picture(
    look: RunSnapshot, found: Estimate, held: Blockers, title: str, width: int, flag: str = ""
) -> RenderableType:
    """Return the whole view for a screen of this width."""
    count = look.count
    done = count.total - count.remaining
    right = f"{done:,}/{count.total:,}  {100 * done // max(count.total, 1)} %"
    name = printable(title)[: max(width // 3, 8)]
    head = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        head.add_column(no_wrap=True)
    head.add_row(
        Text(name, style="bold cyan"),
        ProgressBar(total=max(count.total, 1), completed=done, width=max(width - len(name) - len(right) - 6, 8)),
        Text(right, style="bold"),
    )
    lines = [Text("  ".join(fact for fact in (_speed(look), _left(look, found), _workers(look)) if fact))]
    if not look.finished and (binds := binding_words(found)):
        lines.append(Text(f"what binds: {binds}", style="dim"))
    if count.failed:
        lines.append(Text(failing(look), style="red"))
    lines += [Text(line, style="yellow") for line in notices(held, look.evidence.hosts, flag).values()]
    if look.unattended:
        lines.append(Text(no_workers(look), style="yellow"))
    lines.append(Text(_HINT, style="dim"))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(head, *lines)


def failing(look: RunSnapshot) -> str:
    """Return how many jobs failed, with their kinds and errors; empty if none did."""
    if not look.count.failed:
        return ""
    kinds: Counter[str] = Counter()
    for lane in look.lanes:
        kinds[lane.kind] += lane.failed
    several = len({lane.kind for lane in look.lanes}) > 1
    parts = [f"{kind} {number:,}" for kind, number in kinds.most_common(_GROUPS) if number] if several else []
    parts += [f"{sort} {number:,}" for sort, number in look.failing[:_GROUPS]]
    of = f" ({printable('; '.join(parts))})" if parts else ""
    return f"{look.count.failed:,} failed{of}"


def no_workers(look: RunSnapshot) -> str:
    """Return the warning that no worker seems to be at work."""
    if look.active.unseen:
        gone = not_seen(look.active.unseen, look.active.unseen_seconds)
        return f"No worker works on it: {gone}. To start one: longshore work FILE"
    if look.count.claimed:
        return (
            f"No worker is known to work on it, and nothing finishes. {counted(look.count.claimed, 'job')} are held "
            "by workers that may be gone. To start one: longshore work FILE"
        )
    return "No worker works on it. To start one: longshore work FILE"


def _speed(look: RunSnapshot) -> str:
    return rate(look.per_second) if look.per_second and look.evidence.going else ""


def _left(look: RunSnapshot, found: Estimate) -> str:
    if look.finished:
        return ""
    return time_left(found) or f"time left not known yet: {printable(found.unknown)}"


def _workers(look: RunSnapshot) -> str:
    active = look.active
    if not active.workers:
        return ""
    busy = f" ({active.busy:,} of {active.slots:,} busy)" if active.busy is not None and active.slots else ""
    return counted(active.workers, "worker") + busy


class _Picture(LivePicture):
    def __init__(self, to: Console, title: str, flag: str) -> None:
        super().__init__(to)
        self._title = title
        self._flag = flag

    def show(self, look: RunSnapshot, held: Blockers) -> None:
        self.draw(picture(look, look.estimate, held, self._title, self._to.width, self._flag))


class _Lines(PipedLines):
    def __init__(self, to: Console, flag: str) -> None:
        super().__init__(to, EVERY, first=True)
        self._flag = flag
        self._unattended = 0

    def show(self, look: RunSnapshot, held: Blockers) -> None:
        if not look.finished:
            self.say_when_due(lambda: progress_line(look, look.estimate))
        self.say_new(notices(held, look.evidence.hosts, self._flag))
        # Once, and only after two reads: a worker may have been between two jobs at the first.
        self._unattended = self._unattended + 1 if look.unattended else 0
        if self._unattended == 2:
            self.say(no_workers(look))
