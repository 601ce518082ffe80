"""Views that change in place: a terminal that was closed ends nothing, and a pipe has each line at once."""

from __future__ import annotations

import errno
import io
import os

import pytest
from rich.console import Console
from rich.text import Text

from longshore.ui.live_view import LivePicture, PipedLines


class Closable(io.StringIO):
    """A terminal that can be closed by whoever sits at it."""

    gone = False
    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        if self.gone:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(text)

    def flush(self) -> None:
        if self.gone:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def terminal() -> tuple[Console, Closable]:
    file = Closable()
    return Console(file=file, force_terminal=True, width=60, color_system=None), file


def test_a_picture_is_drawn_and_sentences_stay_above_it() -> None:
    to, file = terminal()
    with LivePicture(to) as view:
        view.draw(Text("half way"))
        view.say("The queue answers [again].")
        view.draw(Text("nearly there"))
    shown = file.getvalue()
    assert shown.index("half way") < shown.index("The queue answers [again].") < shown.index("nearly there")


@pytest.mark.parametrize("when", ["before a picture", "before a sentence", "before the end"])
def test_a_terminal_that_was_closed_takes_nothing_more_and_nothing_with_it(when: str) -> None:
    to, file = terminal()
    with LivePicture(to) as view:
        view.draw(Text("half way"))
        file.gone = True
        if when == "before a picture":
            view.draw(Text("nearly there"))
        elif when == "before a sentence":
            view.say("Nobody hears this.")
    writes = file.writes
    assert to.quiet
    view.say("Nor this.")
    assert file.writes == writes


def test_other_errors_in_a_picture_are_not_swallowed() -> None:
    to, _ = terminal()
    with pytest.raises(ValueError, match="no picture"), LivePicture(to) as view:
        view.draw(_Broken())


class _Broken:
    def __rich__(self) -> str:
        raise ValueError("no picture")


def test_a_line_in_a_pipe_is_there_at_once_and_as_it_is() -> None:
    raw = io.BytesIO()
    pipe = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    with PipedLines(Console(file=pipe, width=20, soft_wrap=True)) as lines:
        lines.say("[bold]1,204[/bold] of 5,000 done, 41/s")
        assert raw.getvalue() == b"[bold]1,204[/bold] of 5,000 done, 41/s\n"
