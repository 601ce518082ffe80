"""Checkpoints: small files that say which run a command was working on, so that the same command can resume it.

A checkpoint is written before the first job is submitted and removed once the results are delivered; the checkpoint of
a distributed scraper stays, because its results are not delivered here. If a process dies in between, the next start
finds the file. The progress itself is in the queue; the checkpoint only names the run.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from longshore.errors import UsageError
from longshore.system.atomic_file import write_atomically
from longshore.system.private_files import make_private
from longshore.url import mask_url

S = TypeVar("S", bound=msgspec.Struct)


class _StoredCommand(msgspec.Struct):
    run: str
    queue: str
    handler_file: str
    input: str
    kind: str


@dataclass(frozen=True)
class CommandCheckpoint:
    """The checkpoint of one `longshore run`. Two commands are the same if queue, handler file, input and kind are."""

    folder: Path
    queue: str
    handler_file: str
    input: str
    kind: str

    @property
    def path(self) -> Path:
        """Path of the checkpoint file."""
        name = "\0".join((self.queue, self.handler_file, self.input, self.kind))
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:20]}.json"

    def load(self) -> str | None:
        """Return the run that the command did not finish; None if there is none."""
        stored = _read(self.path, _StoredCommand, "It names the run to resume: name one with --run, or remove it.")
        return None if stored is None else stored.run

    def save(self, run: str) -> None:
        """Write the run to the checkpoint file, atomically."""
        stored = _StoredCommand(run, mask_url(self.queue), self.handler_file, self.input, self.kind)
        _write(self.path, stored, "The same command needs this file to resume after a crash")

    def remove(self, run: str) -> None:
        """Remove the checkpoint of a delivered run, so that the next command starts a new run.

        A checkpoint of another run is kept.
        """
        # If the file cannot be read, it may belong to another run.
        with suppress(UsageError):
            if self.load() == run:
                self.path.unlink(missing_ok=True)


class ResumeState(msgspec.Struct, frozen=True):
    """The content of a scraper's checkpoint."""

    run: str
    named: dict[str, str] | None = None
    """The source that was given with the start and replaces the scraper's own; None if none was given."""
    submitted: bool = False
    """Whether every job of the source is in the queue."""
    scraper: str = ""
    queue: str = ""
    """For people who open the file. Secrets in the URL are masked."""


@dataclass(frozen=True)
class ScraperCheckpoints:
    """The checkpoints of one scraper on one queue: a file for each run that can be resumed."""

    home: Path
    scraper: str
    queue: str

    @property
    def folder(self) -> Path:
        """Folder of the checkpoint files."""
        return self.home / f"{self.scraper}-{hashlib.sha256(self.queue.encode()).hexdigest()[:12]}"

    def load(self, run: str | None = None) -> ResumeState | None:
        """Return the state of `run`, or of the run that was started last; None if there is nothing to resume."""
        if run is not None:
            return self._read(self._path(run))
        return next((found for path in self._paths() if (found := self._read(path))), None)

    def save(self, state: ResumeState) -> None:
        """Write the state atomically. It is on the disk when this returns."""
        stored = msgspec.structs.replace(state, scraper=self.scraper, queue=mask_url(self.queue))
        _write(self._path(state.run), stored, "--resume needs this file after a crash")

    def remove(self, run: str) -> None:
        """Remove the checkpoint of `run`: nothing of it is left to resume."""
        self._path(run).unlink(missing_ok=True)

    def remove_submitted(self, *, keep: str) -> None:
        """Remove the checkpoints of all fully submitted runs except `keep`."""
        for path in self._paths():
            found = self._read(path)
            if found is not None and found.submitted and found.run != keep:
                self.remove(found.run)

    def _path(self, run: str) -> Path:
        return self.folder / f"{run}.json"

    def _paths(self) -> list[Path]:
        """Return the files, newest first. A file that is removed meanwhile is sorted to the end."""

        def modified(path: Path) -> int:
            try:
                return path.stat().st_mtime_ns
            except FileNotFoundError:
                return 0

        return sorted(self.folder.glob("*.json"), key=modified, reverse=True)

    def _read(self, path: Path) -> ResumeState | None:
        return _read(path, ResumeState, "It says how far a run was submitted: remove it.")


def _read(path: Path, type_: type[S], advice: str) -> S | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}. {advice}") from error


def _write(path: Path, stored: msgspec.Struct, purpose: str) -> None:
    try:
        make_private(path.parent)
        write_atomically(path, msgspec.json.encode(stored), durable=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. {purpose}: make its folder writable."
        ) from error
