"""Where the runs of a scraper stand: which there are, and whether all of their jobs have been submitted.

Written before the first job is submitted, and for a run that is worked on here taken away once its results are
delivered. What was done so far is in the queue; this says which part of the queue it is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longshore.errors import UsageError
from longshore.system.atomic_file import write_atomically
from longshore.url import mask_url


class ResumeState(msgspec.Struct, frozen=True):
    """What is written down."""

    run: str
    named: dict[str, str] | None = None
    """The source that was named when it was started, in place of the scraper's own."""
    submitted: bool = False
    """Whether every job of the source is in the queue."""
    scraper: str = ""
    queue: str = ""
    """For people: what is secret in it is masked."""


@dataclass(frozen=True)
class Checkpoint:
    """The runs of one scraper on one queue that can be gone on with, a small file each."""

    home: Path
    scraper: str
    queue: str

    @property
    def folder(self) -> Path:
        """Where they are written."""
        return self.home / f"{self.scraper}-{hashlib.sha256(self.queue.encode()).hexdigest()[:12]}"

    def recall(self, run: str | None = None) -> ResumeState | None:
        """How a run stands, or the one that was begun last; None where there is nothing to go on with."""
        if run is not None:
            return self._read(self._path(run))
        return next((found for path in self._paths() if (found := self._read(path))), None)

    def note(self, standing: ResumeState) -> None:
        """Write it down, whole or not at all; on the disk when this returns."""
        noted = msgspec.structs.replace(standing, scraper=self.scraper, queue=mask_url(self.queue))
        path = self._path(standing.run)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, msgspec.json.encode(noted), durable=True)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror or error}. It is what lets --resume go on after a crash: "
                "make its folder writable."
            ) from error

    def forget(self, run: str) -> None:
        """There is nothing left of this run to go on with."""
        self._path(run).unlink(missing_ok=True)

    def forget_submitted(self, *, but: str) -> None:
        """Keep only this run, and those whose jobs are not all in the queue."""
        for path in self._paths():
            found = self._read(path)
            if found is not None and found.submitted and found.run != but:
                self.forget(found.run)

    def _path(self, run: str) -> Path:
        return self.folder / f"{run}.json"

    def _paths(self) -> list[Path]:
        """The newest first. One that is taken away meanwhile is the oldest."""

        def written(path: Path) -> int:
            try:
                return path.stat().st_mtime_ns
            except FileNotFoundError:
                return 0

        return sorted(self.folder.glob("*.json"), key=written, reverse=True)

    def _read(self, path: Path) -> ResumeState | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=ResumeState)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}. It notes how far a run was: remove it.") from error
