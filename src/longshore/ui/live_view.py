"""The base of every view that follows something while it runs: a picture on a terminal, lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape

from longshore.system.printable import printable_lines
from longshore.system.terminal import control_keys_not_echoed


def can_redraw(to: Console) -> bool:
    """Return whether `to` is a terminal on which text can be drawn over."""
    return to.is_terminal and not to.is_dumb_terminal


class LivePicture:
    """A picture that is drawn over the last one.

    A terminal that was closed gets no more output; the error does not end the command that is being watched.
    """

    def __init__(self, to: Console) -> None:
        self._to = to
        # Only `draw` draws: a refresh thread would draw everything a second time.
        self._live = Live(console=to, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._around = ExitStack()

    def __enter__(self) -> Self:
        self._around.enter_context(ctrl_c_unseen(self._to))
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._unless_gone():
            self._live.stop()
        self._around.close()

    def draw(self, picture: RenderableType) -> None:
        """Replace the picture."""
        with self._unless_gone():
            self._live.update(picture, refresh=True)

    def say(self, text: str) -> None:
        """Write a sentence above the picture; it stays there."""
        with self._unless_gone():
            self._to.print(f"[yellow]{escape(printable_lines(text))}[/yellow]")

    @contextmanager
    def _unless_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._to.quiet = True


class PipedLines:
    """Lines for a pipe; each is flushed, so that the reader has it at once.

    `every` is the number of seconds between two lines of progress, `first` whether the first one is due at once.
    """

    def __init__(self, to: Console, every: float = 0.0, *, first: bool = False) -> None:
        self._to = to
        self._every = every
        self._last = float("-inf") if first else time.monotonic()
        self._notices: Mapping[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, text: str) -> None:
        """Write a line."""
        self._to.print(printable_lines(text), markup=False)
        self._to.file.flush()

    def say_when_due(self, line: Callable[[], str], *, now: bool = False) -> None:
        """Write a line of progress if the last one is `every` seconds old, or if it is wanted `now`."""
        moment = time.monotonic()
        if now or moment - self._last >= self._every:
            self._last = moment
            self.say(line())

    def say_new(self, notices: Mapping[str, str]) -> None:
        """Write the notices whose names were not among those of the last call: the figures in a notice change."""
        before, self._notices = self._notices, notices
        for name, line in notices.items():
            if name not in before:
                self.say(line)


@contextmanager
def ctrl_c_unseen(to: Console) -> Iterator[None]:
    """Keep the terminal from writing ^C at the cursor, which is in the middle of the picture."""
    try:
        terminal = to.file.fileno()
    except OSError:
        yield
        return
    with control_keys_not_echoed(terminal):
        yield
