"""One line at the bottom of a terminal that is drawn over itself, below the lines of the log."""

from __future__ import annotations

import shutil
import threading
from typing import TextIO

_ERASE = "\r\x1b[2K"
_EMOJI_CELLS = 2
"""An emoji is one character and two cells wide; the line holds at most one."""


class LiveLine:
    """The live line of one terminal. Everything else that is written to the terminal goes through `write`.

    May be used from several threads. Raises `OSError` if the terminal is gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._lock = threading.Lock()

    @property
    def columns(self) -> int:
        """The width of the terminal now."""
        return shutil.get_terminal_size().columns

    def show(self, text: str) -> None:
        """Show this text, cut to the width of the terminal, instead of the last one; an empty text removes the line."""
        room = self.columns - _EMOJI_CELLS
        cut = text if len(text) <= room else text[: room - 1] + "…"
        with self._lock:
            if cut != self._text:
                self._text = cut
                self._write("")

    def write(self, line: str) -> None:
        """Write a line of the log, which stays on the screen, above the live line."""
        with self._lock:
            self._write(line)

    def _write(self, line: str) -> None:
        self._stream.write(f"{_ERASE}{line}{self._text}")
        self._stream.flush()
