"""The archive: old completed jobs, packed by month into compressed files of JSON lines.

Packed jobs are still in the queue: they are counted and listed, their keys are duplicates, and prune removes them.
"""

from __future__ import annotations

import gzip
import logging
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from longshore.extensions.archive import Month
from longshore.media.git.objects.objects import LARGEST, Objects, TooLargeError
from longshore.media.git.state.branch_files import ARCHIVE, BranchJob, JobPath
from longshore.stored import LATEST

log = logging.getLogger(__name__)

_PART = re.compile(rf"{ARCHIVE}/(?P<month>\d{{4}}-\d\d)/(?P<serial>\d{{6,12}})-(?P<jobs>\d{{1,9}})\.jsonl\.gz")
_MAX_JOBS = 5000
"""Jobs in one file."""
_MAX_BYTES = LARGEST // 2
"""Uncompressed bytes in one file, unless a single job has more."""


class Packed(msgspec.Struct, frozen=True):
    """A line of the archive."""

    number: int
    lane: int
    identity: str
    epoch: int
    record: msgspec.Raw

    def place(self, part: str, oid: str) -> JobPath:
        """Return the place of the job in this file of the archive."""
        return JobPath(
            number=self.number, lane=self.lane, identity=self.identity, epoch=self.epoch, folder=part, oid=oid
        )


def pack(jobs: Iterable[tuple[JobPath, BranchJob]]) -> Iterator[tuple[str, list[Packed]]]:
    """Yield month and lines of each file to write; a job belongs to the month in which it was settled."""
    months: dict[str, list[Packed]] = {}
    for place, record in jobs:
        settled_at = min(max(record.settled_at or 0.0, 0.0), LATEST)
        month = datetime.fromtimestamp(settled_at, UTC).strftime("%Y-%m")
        line = Packed(place.number, place.lane, place.identity, place.epoch, msgspec.Raw(msgspec.json.encode(record)))
        months.setdefault(month, []).append(line)
    for month, lines in months.items():
        for portion in _portions(lines):
            yield month, portion


def _portions(lines: list[Packed]) -> Iterator[list[Packed]]:
    portion: list[Packed] = []
    size = 0
    for line in lines:
        length = len(bytes(line.record))
        if portion and (len(portion) == _MAX_JOBS or size + length > _MAX_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(line)
        size += length
    yield portion


def name_of(month: str, serial: int, jobs: int) -> str:
    """Return the path of a file of the archive, which contains its number of jobs."""
    return f"{ARCHIVE}/{month}/{serial:06d}-{jobs}.jsonl.gz"


def is_part(path: str) -> bool:
    """Return whether a path is that of a file of the archive."""
    return _PART.fullmatch(path) is not None


def month_of(path: str) -> str:
    """Return the month of a file of the archive."""
    found = _PART.fullmatch(path)
    return found["month"] if found else ""


def written(lines: list[Packed]) -> bytes:
    """Return a file's content; it depends on the jobs only, not on the time of writing."""
    return gzip.compress(b"".join(msgspec.json.encode(line) + b"\n" for line in lines), 6, mtime=0)


def read(content: bytes) -> list[Packed]:
    """Return the lines of a file. Raises `ValueError` if Longshore cannot have written it."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = inflate.decompress(content, 2 * LARGEST)
    except zlib.error as error:
        raise ValueError(f"it is not a valid gzip file ({error})") from error
    if inflate.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {2 * LARGEST} bytes")
    decode = msgspec.json.Decoder(Packed).decode
    return [decode(line) for line in text.splitlines() if line]


def months(parts: Mapping[str, str], objects: Objects) -> list[Month]:
    """Return the statistics of these files of the archive per month. Their names contain the numbers of jobs."""
    found: dict[str, tuple[int, int, int]] = {}
    for path, oid in parts.items():
        if (part := _PART.fullmatch(path)) is not None:
            jobs, files, size = found.get(part["month"], (0, 0, 0))
            found[part["month"]] = (jobs + int(part["jobs"]), files + 1, size + _size(path, oid, objects))
    return [
        Month(month=month, jobs=jobs, files=files, size=size) for month, (jobs, files, size) in sorted(found.items())
    ]


def _size(path: str, oid: str, objects: Objects) -> int:
    try:
        return len(objects.read(oid))
    except TooLargeError as error:
        log.warning("A file of the archive is not Longshore's: %s: %s", path, error)
        return 0
