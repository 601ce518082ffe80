"""The writer of records: one for each process, in segments of its own. Nothing written is ever changed.

    put(job, emitted)      an attempt is over; its records wait here
    flush()                they are on disk; only now may their settlements be sent
    settled(job, epoch)    the settlement was accepted; the mark is written with what comes next

A process that dies before `flush` leaves nothing, or the torn end of a segment, which readers pass over. One that dies
before the mark is written leaves whole records, of which the queue knows whether they count.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from pathlib import Path

import msgspec
import zstandard

from longshore.job import Job
from longshore.scrape.records.emission import Emitted
from longshore.scrape.records.segment_lines import SUFFIX, NewAttemptLine, SettledLine
from longshore.system.descriptors import open_binary, sync_folder

SEGMENT_BYTES = 64 * 1024 * 1024
SEGMENT_SECONDS = 3600.0
"""A segment is left at this size or age: whoever copies finished ones away need not wait long."""
_MARKS_AT_ONCE = 1000
_LEVEL = 1
"""Records are written while others wait for it, and packed better, if that is wanted, when they are exported."""
_REVISION = re.compile(rf"\.r(\d+)\.\d+{re.escape(SUFFIX)}\Z")

_encode = msgspec.json.Encoder().encode


class RecordWriter:
    """Writes the records of one process. All methods may be called from any thread."""

    def __init__(self, folder: Path, worker: str, *, revision: int = 0) -> None:
        """`worker` is the worker's incarnation: no two writers share one. The folder is made when it is first needed.

        A `revision` above 0 is for records that take the place of those of the same attempts.
        """
        self._folder = folder
        self._name = _file_name(worker) + (f".r{revision}" if revision else "")
        self._revision = revision
        self._lines: list[bytes] = []
        self._marks: list[tuple[str, int]] = []
        self._not_on_disk = 0
        self._gathering = threading.Lock()
        self._writing = threading.Lock()
        self._file: int | None = None
        self._path: Path | None = None
        self._size = 0
        """What of it is whole."""
        self._opened = 0.0
        self._number = 0
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)

    @property
    def unwritten(self) -> bool:
        """Whether something put is not on disk yet, also while another thread is writing it."""
        return self._not_on_disk > 0

    @property
    def due(self) -> bool:
        """Whether a `flush` has something to write."""
        return bool(self._lines) or len(self._marks) >= _MARKS_AT_ONCE

    def put(self, job: Job, emitted: Emitted) -> None:
        """Take what an attempt that completed has emitted. `job` is the job as it was claimed."""
        line = NewAttemptLine(
            run=job.run,
            kind=job.kind,
            key=job.key,
            job=job.id,
            epoch=job.epoch,
            revision=self._revision,
            at=time.time(),
            rejected=emitted.rejected,
            records=emitted.encoded,
        )
        encoded = _encode(line)
        with self._gathering:
            self._lines.append(encoded)
            self._not_on_disk += 1

    def settled(self, job_id: str, epoch: int) -> None:
        """The queue accepted the settlement, as completed, of an attempt whose records were put here."""
        with self._gathering:
            self._marks.append((job_id, epoch))

    def flush(self) -> None:
        """Return when everything put is on disk. Marks alone may wait, for the queue knows the same.

        Raises `OSError` where it cannot be written; nothing is lost by it, and the next `flush` tries again.
        """
        with self._writing:
            if self.due:
                self._write()

    def close(self) -> None:
        """Write what is left, the marks too, and let go of the file. Closing twice is harmless."""
        with self._writing:
            try:
                if self._lines or self._marks:
                    self._write()
            finally:
                self._leave()

    def _write(self) -> None:
        with self._gathering:
            lines, marks = self._lines, self._marks
            self._lines, self._marks = [], []
        try:
            self._append(lines, marks)
        except BaseException:
            # What was written of it, if anything, is a torn end. No other frame may come behind that.
            self._cut()
            self._leave()
            with self._gathering:
                self._lines[:0] = lines
                self._marks[:0] = marks
            raise
        with self._gathering:
            self._not_on_disk -= len(lines)

    def _append(self, lines: list[bytes], marks: list[tuple[str, int]]) -> None:
        marked = [_encode(SettledLine(tuple(marks)))] if marks else []
        frame = self._compressor.compress(b"\n".join([*lines, *marked, b""]))
        old = time.monotonic() - self._opened > SEGMENT_SECONDS
        if self._file is not None and (old or self._size + len(frame) > SEGMENT_BYTES):
            self._leave()
        file = self._open() if self._file is None else self._file
        left = memoryview(frame)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
        self._size += len(frame)

    def _open(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = path = self._folder / f"{self._name}.{self._number:04}{SUFFIX}"
        self._number += 1
        self._file = open_binary(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._size, self._opened = 0, time.monotonic()
        # The name of a new file must be as durable as its content.
        sync_folder(self._folder)
        return self._file

    def _cut(self) -> None:
        """Take away what a failed write left: a full disk needs the room, and would get another segment at each try."""
        if self._file is None or self._path is None:
            return
        # A disk that refuses this too keeps a torn end, which readers pass over.
        with contextlib.suppress(OSError):
            if self._size:
                os.ftruncate(self._file, self._size)
            else:
                self._path.unlink()

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def next_revision(folder: Path) -> int:
    """The revision that a new parse of stored pages writes: one above all that are there."""
    found = [_REVISION.search(path.name) for path in folder.glob(f"*{SUFFIX}")]
    return 1 + max((int(match[1]) for match in found if match), default=0)


def _file_name(worker: str) -> str:
    """A name for files, as readable as can be, and different for every incarnation."""
    label = re.sub(r"[^A-Za-z0-9_-]+", "_", worker.partition("/")[0])[:40] or "worker"
    return f"{label}-{hashlib.sha256(worker.encode()).hexdigest()[:12]}"
