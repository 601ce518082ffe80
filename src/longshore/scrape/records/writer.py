"""The writer of records: one per process, with its own segments. Written data is never changed.

    put(job, emitted)      an attempt has completed; its records wait in memory
    flush()                the records are on disk; only now may their settlements be sent
    settled(job, epoch)    the queue accepted the settlement; the mark is written with the next records

A process that dies before `flush` leaves nothing, or a torn end of a segment, which readers skip. A process that dies
before the mark is written leaves complete records, and the queue decides whether they count.
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
from longshore.system.file_lock import hold_open_file
from longshore.system.private_files import make_private

SEGMENT_BYTES = 64 * 1024 * 1024
SEGMENT_SECONDS = 3600.0
"""A new segment is begun at this size or age, so that finished segments can soon be copied elsewhere."""
_MARKS_AT_ONCE = 1000
_LEVEL = 1
"""The fastest compression: settlements wait for the write. An export may compress better."""
_REVISION = re.compile(rf"\.r(\d+)\.\d+{re.escape(SUFFIX)}\Z")

_encode = msgspec.json.Encoder().encode


class RecordWriter:
    """The record segments of one process. All methods may be called from any thread."""

    def __init__(self, folder: Path, worker: str, *, revision: int = 0) -> None:
        """Make a writer; `worker` is the worker's incarnation, unique to each writer.

        The folder is made at the first write. Records with a `revision` above 0 replace those of the same attempts.
        """
        self._folder = folder
        self._name = _file_name(worker) + (f".r{revision}" if revision else "")
        self._revision = revision
        self._lines: list[bytes] = []
        self._marks: list[tuple[str, int]] = []
        self._unwritten = 0
        self._buffer_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._file: int | None = None
        self._path: Path | None = None
        self._size = 0
        """The size of its complete frames in bytes."""
        self._opened = 0.0
        self._number = 0
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)

    @property
    def unwritten(self) -> bool:
        """Whether some records are not on disk yet, including those that another thread is writing."""
        return self._unwritten > 0

    @property
    def due(self) -> bool:
        """Whether a `flush` has something to write."""
        return bool(self._lines) or len(self._marks) >= _MARKS_AT_ONCE

    def put(self, job: Job, emitted: Emitted) -> None:
        """Add the records of a completed attempt. `job` is the job as it was claimed."""
        line = NewAttemptLine(
            run=job.run,
            kind=job.kind,
            key=job.key,
            queue=job.queue,
            job=job.id,
            epoch=job.epoch,
            revision=self._revision,
            at=time.time(),
            rejected=emitted.rejected,
            records=emitted.encoded,
        )
        encoded = _encode(line)
        with self._buffer_lock:
            self._lines.append(encoded)
            self._unwritten += 1

    def settled(self, job_id: str, epoch: int) -> None:
        """Mark an attempt whose records were put here and whose completion the queue accepted."""
        with self._buffer_lock:
            self._marks.append((job_id, epoch))

    def flush(self) -> None:
        """Return when all records put before are on disk. Marks alone may wait, because the queue has the same facts.

        Raise `OSError` if they cannot be written; they stay in memory and the next `flush` tries again.
        """
        with self._write_lock:
            if self.due:
                self._write()

    def close(self) -> None:
        """Write the remaining records and marks, and close the file. Closing twice is harmless."""
        with self._write_lock:
            try:
                if self._lines or self._marks:
                    self._write()
            finally:
                self._close_file()

    def _write(self) -> None:
        with self._buffer_lock:
            lines, marks = self._lines, self._marks
            self._lines, self._marks = [], []
        try:
            self._append(lines, marks)
        except BaseException:
            # The write may have left a torn frame, and no other frame may follow that.
            self._truncate()
            self._close_file()
            with self._buffer_lock:
                self._lines[:0] = lines
                self._marks[:0] = marks
            raise
        with self._buffer_lock:
            self._unwritten -= len(lines)

    def _append(self, lines: list[bytes], marks: list[tuple[str, int]]) -> None:
        marked = [_encode(SettledLine(tuple(marks)))] if marks else []
        frame = self._compressor.compress(b"\n".join([*lines, *marked, b""]))
        old = time.monotonic() - self._opened > SEGMENT_SECONDS
        if self._file is not None and (old or self._size + len(frame) > SEGMENT_BYTES or not self._is_there()):
            self._close_file()
        file = self._open() if self._file is None else self._file
        rest = memoryview(frame)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
        self._size += len(frame)

    def _open(self) -> int:
        make_private(self._folder)
        self._path = path = self._folder / f"{self._name}.{self._number:04}{SUFFIX}"
        self._number += 1
        self._file = open_binary(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._size, self._opened = 0, time.monotonic()
        # A prune leaves an open segment alone; see `removal`.
        hold_open_file(self._file, wait=True)
        # The name of a new file must be as durable as its contents.
        sync_folder(self._folder)
        return self._file

    def _is_there(self) -> bool:
        """Return whether the open file is still the one with its name: records in a removed file would be lost."""
        if self._file is None or self._path is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False

    def _truncate(self) -> None:
        """Remove what a failed write left: it takes space on a full disk, and each try would leave another segment."""
        if self._file is None or self._path is None:
            return
        # If this fails as well, a torn end stays, which readers skip.
        with contextlib.suppress(OSError):
            if self._size:
                os.ftruncate(self._file, self._size)
            else:
                self._path.unlink()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def next_revision(folder: Path) -> int:
    """Return the revision for a new parse of stored pages: one above the highest in the folder."""
    found = [_REVISION.search(path.name) for path in folder.glob(f"*{SUFFIX}")]
    return 1 + max((int(match[1]) for match in found if match), default=0)


def _file_name(worker: str) -> str:
    """Return a readable file name that is unique to the incarnation."""
    label = re.sub(r"[^A-Za-z0-9_-]+", "_", worker.partition("/")[0])[:40] or "worker"
    return f"{label}-{hashlib.sha256(worker.encode()).hexdigest()[:12]}"
