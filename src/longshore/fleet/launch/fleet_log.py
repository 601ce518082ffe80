"""The log of a fleet, in addition to the logs of its workers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from longshore.errors import UsageError
from longshore.observe.log_file import LogFile

LOGS = Path("logs")


class FleetLog:
    """The supervisor's log: a line for each event that a person may want to look up later.

    A full disk, for example, does not end a fleet: lines that cannot be written are lost, and one message says so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closed = True
        self.complain: Callable[[str], None] | None = None
        """Called once with the message that the log cannot be written."""

    def __enter__(self) -> Self:
        try:
            self._file = LogFile(self._path)
        except OSError as error:
            raise UsageError(
                f"{self._path} cannot be written: {error.strerror or error}. The logs of a fleet go there."
            ) from error
        self._file.complain = self._cannot_write
        self._closed = False
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._file.close()

    def write(self, text: str) -> None:
        """Add a line."""
        text = " ".join(text.split())
        line = f"{datetime.now(UTC).astimezone().isoformat(timespec='seconds')} {text}\n"
        self._file.write(line)

    def relay(self, entry: dict[str, Any]) -> None:
        """Add an entry of the process's own log, if this log is still open."""
        if not self._closed:
            error = f" ({entry['error']})" if entry.get("error") else ""
            self.write(f"{entry['message']}{error}")

    def _cannot_write(self, error: OSError) -> None:
        if self.complain is not None:
            self.complain(f"{self._path} cannot be written: {error.strerror or error}. The fleet goes on without.")
