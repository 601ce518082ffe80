"""The roll: what each worker that signed in says of itself. Whether it is alive its heartbeat tells (see `workers`).

The words lie beside the heartbeat rather than in it. A worker claims and renews at the same time, through openings of
the queue that know nothing of one another; were both in one file, a claim could put back words that were just replaced,
or sign in again a worker that has just left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from longshore.extensions.presence import PresentWorker, WorkerInfo, worker_info
from longshore.lease import WorkerId
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import worker_of
from longshore.media.directory.journal.entry import new_id
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.ops.heartbeats import Workers
from longshore.stored import encode


class WorkerInfoFile(msgspec.Struct, frozen=True):
    """What a worker's file on the roll says."""

    label: str
    incarnation: str
    about: dict[str, Any]


class WorkerInfoFiles:
    """The roll of a queue."""

    def __init__(self, journal: Journal, workers: Workers) -> None:
        self._journal = journal
        self._workers = workers

    def enter(self, worker: WorkerId, words: bytes) -> None:
        """Put a worker on the roll, after its heartbeat. Not synced: after a power cut nobody is alive anyway."""
        own = self._journal.path(f"staging/words.{new_id()}")
        disk.write_hint(own, words)
        disk.move(own, self._file(worker_of(worker.label, worker.incarnation)))

    def leave(self, worker: WorkerId) -> None:
        """Take a worker off the roll, if it is on it."""
        disk.remove(self._file(worker_of(worker.label, worker.incarnation)))

    def present(self) -> list[PresentWorker]:
        """Who is on the roll and not silent under the eyes of this observer, by label."""
        found = []
        for folder in self._folders():
            words = self._read(folder)
            # A file under another's name is nobody's word.
            if words is None or worker_of(words.label, words.incarnation) != folder or self._workers.silent(folder):
                continue
            found.append(PresentWorker(WorkerId(words.label, words.incarnation), worker_info(words.about)))
        return sorted(found, key=lambda each: (each.worker.label, each.worker.incarnation))

    def clear(self) -> None:
        """Take those off the roll who are silent under the eyes of this observer."""
        for folder in self._folders():
            if self._workers.silent(folder):
                disk.remove(self._file(folder))

    def _folders(self) -> Iterator[str]:
        for name in disk.names(self._journal.path("roll")):
            if name.endswith(".json"):
                yield name.removesuffix(".json")

    def _read(self, folder: str) -> WorkerInfoFile | None:
        try:
            return msgspec.json.decode(disk.read(self._file(folder)), type=WorkerInfoFile)
        except (OSError, msgspec.DecodeError, RecursionError):
            # Gone this moment, or no words of ours: nobody has said anything.
            return None

    def _file(self, folder: str) -> str:
        return self._journal.path(f"roll/{folder}.json")


def words_of(worker: WorkerId, info: WorkerInfo) -> bytes:
    """What is written of a worker. Raises where it could not be read back."""
    words = {"label": worker.label, "incarnation": worker.incarnation, "about": info}
    return encode(words, "The info of a worker")
