"""How far a run is, while it runs: a bar on a terminal, a line now and then in a pipe. Always on standard error."""

from __future__ import annotations

import sys
import time
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
from longshore.system.terminal import control_keys_not_echoed
from longshore.ui.output import left_words

EVERY = 5.0
"""Seconds between two lines in a pipe."""


class RunProgress(AbstractContextManager["RunProgress"], Protocol):
    """Shows a run while it runs."""

    def show(self, count: Count, pace: CurrentRate) -> None:
        """The run stands so."""

    def say(self, text: str) -> None:
        """A sentence, without disturbing the rest."""


def console() -> Console:
    """Where people are spoken to: standard error; plain, uncut text where that is no terminal."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def run_progress(to: Console) -> RunProgress:
    """The bar, or the lines."""
    return _Bar(to) if to.is_terminal and not to.is_dumb_terminal else _Lines(to)


@contextmanager
def submitting(source: Source) -> Iterator[Callable[[Submission], None]]:
    """What a submission calls as it goes on. Only a terminal is shown anything."""
    to = console()
    # Where the jobs are typed in, a moving line would be in the way.
    if not to.is_terminal or to.is_dumb_terminal or (source.name == STANDARD_INPUT and sys.stdin.isatty()):
        yield lambda _: None
        return
    with to.status("Reading…") as status:
        yield lambda done: status.update(f"Submitting to run {done.run_id}: {done.submitted + done.duplicates:,} jobs")


def rate(per_second: float) -> str:
    """Jobs by the second, or by the minute or hour where they are slow."""
    if per_second >= 10:
        return f"{per_second:,.0f}/s"
    if per_second >= 1:
        return f"{per_second:.1f}/s"
    return f"{per_second * 60:.1f}/min" if per_second * 60 >= 1 else f"{per_second * 3600:.1f}/h"


def _facts(count: Count, pace: CurrentRate) -> tuple[str, str, str]:
    seconds = pace.seconds_left(count.remaining)
    return (
        rate(pace.per_second) if pace.per_second else "",
        left_words(seconds) if seconds is not None and count.remaining else "",
        f"{count.failed:,} failed" if count.failed else "",
    )


class _Bar:
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
        # The bar of a run that is over says what came of it; half a bar would only be in the way of the words.
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
        self._progress.console.print(f"[yellow]{escape(text)}[/yellow]")


@contextmanager
def ctrl_c_unseen(to: Console) -> Iterator[None]:
    """Keep the terminal from writing ^C where the cursor stands, which is in the middle of the bar."""
    try:
        terminal = to.file.fileno()
    except OSError:
        yield
        return
    with control_keys_not_echoed(terminal):
        yield


class _Lines:
    def __init__(self, to: Console) -> None:
        self._to = to
        self._last_time = time.monotonic()
        self._last_done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, count: Count, pace: CurrentRate) -> None:
        now = time.monotonic()
        done = _done(count)
        ended = count.remaining == 0 and done != self._last_done
        if not ended and now - self._last_time < EVERY:
            return
        self._last_time, self._last_done = now, done
        facts = [f"{done:,} of {count.total:,} done", *(fact for fact in _facts(count, pace) if fact)]
        self._to.print(", ".join(facts), markup=False)

    def say(self, text: str) -> None:
        self._to.print(text, markup=False)


def _done(count: Count) -> int:
    return count.total - count.remaining
