"""The archive: finished jobs that nobody has touched for a while, packed by month into compressed files of JSON lines.

A packed job is still there for everyone: counted, listed, known as a duplicate, and removed by prune.
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
_IN_ONE = 5000
"""Jobs in one file."""
_TEXT = LARGEST // 2
"""Bytes of text in one file, before they are packed, where one job alone has not more."""


class Packed(msgspec.Struct, frozen=True):
    """A line of the archive."""

    number: int
    lane: int
    identity: str
    epoch: int
    record: msgspec.Raw

    def place(self, part: str, oid: str) -> JobPath:
        """Where the job stands now: in this file."""
        return JobPath(
            number=self.number, lane=self.lane, identity=self.identity, epoch=self.epoch, folder=part, oid=oid
        )


def pack(jobs: Iterable[tuple[JobPath, BranchJob]]) -> Iterator[tuple[str, list[Packed]]]:
    """Jobs by the month in which they were settled, in portions of one file each."""
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
        if portion and (len(portion) == _IN_ONE or size + length > _TEXT):
            yield portion
            portion, size = [], 0
        portion.append(line)
        size += length
    yield portion


def name_of(month: str, serial: int, jobs: int) -> str:
    """A file of the archive; its name says how many jobs it holds."""
    return f"{ARCHIVE}/{month}/{serial:06d}-{jobs}.jsonl.gz"


def is_part(path: str) -> bool:
    """Whether a path is one of the archive's files."""
    return _PART.fullmatch(path) is not None


def month_of(path: str) -> str:
    """The month of a file of the archive."""
    found = _PART.fullmatch(path)
    return found["month"] if found else ""


def written(lines: list[Packed]) -> bytes:
    """A file's content: the same for the same jobs, whenever it is written."""
    return gzip.compress(b"".join(msgspec.json.encode(line) + b"\n" for line in lines), 6, mtime=0)


def read(content: bytes) -> list[Packed]:
    """The lines of a file. Raises `ValueError` for one that is none of ours."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = inflate.decompress(content, 2 * LARGEST)
    except zlib.error as error:
        raise ValueError(f"it is not compressed as it should be ({error})") from error
    if inflate.unconsumed_tail:
        raise ValueError("it unpacks to more than any of ours")
    decode = msgspec.json.Decoder(Packed).decode
    return [decode(line) for line in text.splitlines() if line]


def months(parts: Mapping[str, str], objects: Objects) -> list[Month]:
    """What is archived, month by month, of the files at these paths. Their names say how many jobs they hold."""
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
        log.warning("A file of the archive is none of ours: %s: %s", path, error)
        return 0
