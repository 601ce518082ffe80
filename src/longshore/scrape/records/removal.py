"""Remove the records of pruned jobs from a folder of segments.

They do not count any more, because the queue that is read decides; here they also leave the disk. A segment with such
records is written again without them, or removed if nothing is left. A segment that its writer has open is left alone;
the next removal finds it closed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container
from pathlib import Path

import zstandard

from longshore.extensions.record_store import JobInQueue
from longshore.scrape.records.reader import HEADS, read_line, segment_lines
from longshore.scrape.records.segment_lines import SUFFIX, AttemptHead, SettledLine
from longshore.scrape.records.writer import SEGMENT_SECONDS
from longshore.system.atomic_file import write_atomically
from longshore.system.descriptors import open_binary
from longshore.system.file_lock import LOCKS_OPEN_FILES, hold_open_file

_FRAME = 1 << 20


def remove_records(folder: Path, gone: Container[JobInQueue]) -> int:
    """Remove the records of all attempts at these jobs. Return how many attempts were removed."""
    return sum(_remove(segment, gone) for segment in sorted(folder.glob(f"*{SUFFIX}")))


def _remove(segment: Path, gone: Container[JobInQueue]) -> int:
    try:
        file = open_binary(segment, os.O_RDONLY)
    except FileNotFoundError:
        return 0  # another prune has removed it
    try:
        # A writer begins a new segment after `SEGMENT_SECONDS`, so an older one is complete: on Windows, and if an
        # earlier version wrote it, which did not lock its segments. Otherwise the lock alone decides, because the time
        # of day may be wrong, and the machine may have slept.
        complete = time.time() - os.fstat(file).st_mtime > SEGMENT_SECONDS
        if not hold_open_file(file, wait=False) and (LOCKS_OPEN_FILES or not complete):
            return 0
        return _rewrite(segment, gone, complete=complete)
    finally:
        os.close(file)


def _rewrite(segment: Path, gone: Container[JobInQueue], *, complete: bool) -> int:
    frames: list[bytes] = []
    lines: list[bytes] = []
    size = removed = left = 0
    for text in segment_lines(segment, {}):
        line = read_line(HEADS, segment, text)
        if isinstance(line, AttemptHead):
            if not line.queue and not complete:
                return 0
            if _is_gone(line, gone):
                removed += 1
                continue
            left += 1
        lines.append(text)
        size += len(text)
        if size > _FRAME:
            frames.append(_frame(lines))
            lines, size = [], 0
    if removed and left:
        write_atomically(segment, b"".join((*frames, _frame(lines))), durable=True, private=True)
    elif removed:
        segment.unlink(missing_ok=True)
    return removed


def _is_gone(line: AttemptHead | SettledLine, gone: Container[JobInQueue]) -> bool:
    if isinstance(line, SettledLine):
        return False
    return (line.run, line.kind, line.key, line.queue, line.job) in gone


def _frame(lines: list[bytes]) -> bytes:
    if not lines:
        return b""
    return zstandard.ZstdCompressor(level=1, write_checksum=True).compress(b"\n".join([*lines, b""]))
