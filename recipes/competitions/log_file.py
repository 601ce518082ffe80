"""Keeps what the worker shows also in a file, where `longshore doctor --report` finds its last lines."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TextIO

_LARGEST = 2_000_000
"""Bytes after which a log begins again; the one before is kept as `….log.1`."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class LoggedTerminal(io.TextIOBase):
    """A stream that writes to the terminal, and without colours to a file as well."""

    def __init__(self, terminal: TextIO, file: Path) -> None:
        self._terminal = terminal
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.exists() and file.stat().st_size > _LARGEST:
            file.replace(file.with_name(f"{file.name}.1"))
        self._file = file.open("a", encoding="utf-8")

    @property
    def encoding(self) -> str:  # type: ignore[override]  # that of the terminal, which may have no pictograms
        return self._terminal.encoding

    def isatty(self) -> bool:
        return self._terminal.isatty()

    def write(self, text: str) -> int:
        self._file.write(_COLOURS.sub("", text))
        return self._terminal.write(text)

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()
            self._terminal.flush()

    def close(self) -> None:
        """Close the file; the terminal stays open."""
        self._file.close()
        super().close()
