"""The progress of a run on standard error: a bar on a terminal, a line every few seconds in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from longshore.queue import Count
from longshore.runs.sources import Source
from longshore.runs.submit.input_files import STANDARD_INPUT
from longshore.runs.submit.submission import Submission
from longshore.runs.watch.current_rate import CurrentRate
from longshore.system.printable import printable_lines
from longshore.ui.live_view import PipedLines, can_redraw, ctrl_c_unseen
from longshore.ui.words import left_words, rate

EVERY = 5.0
"""Seconds between two lines in a pipe."""


class RunProgress(AbstractContextManager["RunProgress"], Protocol):
    """A view of a run while it runs."""

    def show(self, count: Count, pace: CurrentRate) -> None:
        """Show the counts and the rate."""

    def say(self, text: str) -> None:
        """Write a sentence without disturbing the rest."""


def console() -> Console:
    """Return the console for messages to people: standard error; plain, uncut text if that is no terminal."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def run_progress(to: Console) -> RunProgress:
    """Return the bar for a terminal, the lines for a pipe."""
    return _Bar(to) if can_redraw(to) else _Lines(to, EVERY)


@contextmanager
def counting(text: Callable[[int], str], first: str = "Reading…") -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of items done; a terminal shows `first`, then `text` of the number."""
    to = console()
    if not can_redraw(to):
        yield lambda _: None
        return
    with to.status(first) as status:
        yield lambda done: status.update(text(done))


@contextmanager
def submitting(source: Source) -> Iterator[Callable[[Submission], None]]:
    """Yield a function to call as a submission goes on; only a terminal shows anything."""
    to = console()
    # When the jobs are typed in, a moving line would be in the way.
    if not can_redraw(to) or (source.name == STANDARD_INPUT and sys.stdin.isatty()):
        yield lambda _: None
        return
    with to.status("Reading…") as status:
        yield lambda done: status.update(f"Submitting to run {done.run_id}: {done.submitted + done.duplicates:,} jobs")


def _facts(count: Count, pace: CurrentRate) -> tuple[str, str, str]:
    seconds = pace.seconds_left(count.remaining)
    return (
        rate(pace.per_second) if pace.per_second else "",
        left_words(seconds) if seconds is not None and count.remaining else "",
        f"{count.failed:,} failed" if count.failed else "",
    )


class _Bar:
    # Not a `LivePicture`: the spinner of `Progress` moves between two counts, so it draws by itself.
    def __init__(self, to: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(style="cyan"),
            BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
            TextColumn("[bold]{task.fields[done]}[/bold]"),
            TextColumn("{task.fields[rate]}", style="cyan"),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[failed]}", style="red"),
            console=to,
            expand=True,
        )
        self._task: TaskID | None = None
        self._around = ExitStack()

    def __enter__(self) -> Self:
        self._around.enter_context(ctrl_c_unseen(self._progress.console))
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The full bar of a finished run stays on the screen; a part of a bar would only be in the way of the summary.
        self._progress.live.transient = not self._progress.finished
        self._progress.stop()
        self._around.close()

    def show(self, count: Count, pace: CurrentRate) -> None:
        speed, left, failed = _facts(count, pace)
        fields: dict[str, Any] = {
            "done": f"{_done(count):,}/{count.total:,}",
            "rate": speed,
            "left": left,
            "failed": failed,
        }
        if self._task is None:
            self._task = self._progress.add_task("", total=count.total, **fields)
        self._progress.update(self._task, completed=_done(count), total=count.total, **fields)

    def say(self, text: str) -> None:
        self._progress.console.print(f"[yellow]{escape(printable_lines(text))}[/yellow]")


class _Lines(PipedLines):
    _last_done = 0

    def show(self, count: Count, pace: CurrentRate) -> None:
        done = _done(count)

        def line() -> str:
            self._last_done = done
            facts = [f"{done:,} of {count.total:,} done", *(fact for fact in _facts(count, pace) if fact)]
            return ", ".join(facts)

        self.say_when_due(line, now=count.remaining == 0 and done != self._last_done)


def _done(count: Count) -> int:
    return count.total - count.remaining
