"""Which run a command was in the middle of, so that the same command, given again, goes on with it.

A bookmark is written before the first job is submitted and removed once the results are delivered. Whatever dies in
between, the next start finds it.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longshore.errors import UsageError
from longshore.system.atomic_file import write_atomically
from longshore.url import mask_url


class _Noted(msgspec.Struct):
    run: str
    queue: str
    handler_file: str
    input: str
    kind: str


@dataclass(frozen=True)
class Bookmark:
    """The place of one command. Two commands are the same if queue, handler file, input and kind are."""

    folder: Path
    queue: str
    handler_file: str
    input: str
    kind: str

    @property
    def path(self) -> Path:
        """Where it is written."""
        name = "\0".join((self.queue, self.handler_file, self.input, self.kind))
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:20]}.json"

    def recall(self) -> str | None:
        """The run the command was in the middle of, if it was."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Noted).run
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{self.path} cannot be read: {error}. "
                "It notes which run to go on with: name one with --run, or remove it."
            ) from error

    def note(self, run: str) -> None:
        """Write the run down, whole or not at all."""
        noted = _Noted(run, mask_url(self.queue), self.handler_file, self.input, self.kind)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, msgspec.json.encode(noted), durable=True)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror or error}. "
                "It is what lets the same command go on after a crash: make its folder writable."
            ) from error

    def forget(self, run: str) -> None:
        """The command has delivered this run; the next one starts afresh. A note of another run is kept."""
        # One that cannot be read is nobody's, and the run it may have been of is not this one's concern.
        with suppress(UsageError):
            if self.recall() == run:
                self.path.unlink(missing_ok=True)
