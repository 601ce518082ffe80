"""What views that change in place have in common: a picture on a terminal, lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape

from longshore.ui.progress import ctrl_c_unseen


class LivePicture:
    """A picture that is drawn over the last one.

    A terminal that was closed takes nothing more, and does not take what is watched with it.
    """

    def __init__(self, to: Console) -> None:
        self._to = to
        # What is drawn is drawn by `draw` alone, so that nothing moves twice.
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
        """This is the picture now."""
        with self._unless_gone():
            self._live.update(picture, refresh=True)

    def say(self, text: str) -> None:
        """A sentence above the picture, which stays."""
        with self._unless_gone():
            self._to.print(f"[yellow]{escape(text)}[/yellow]")

    @contextmanager
    def _unless_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._to.quiet = True


class PipedLines:
    """Lines, each of which whoever reads the other end of a pipe has at once."""

    def __init__(self, to: Console) -> None:
        self._to = to

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, text: str) -> None:
        """A line."""
        self._to.print(text, markup=False)
        self._to.file.flush()
