"""Read records: first find the attempts that count, then stream their records.

    reader = RecordReader(folder, run="monday", queue_decides=True)
    reader.count([...])              the completed jobs of the queue
    for record in reader.records(): ...

The first pass keeps one small entry per attempt in memory, never a record. Records written in the meantime are not
read. Without `queue_decides` no queue is needed: the attempts that their writers marked as settled count.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import zstandard

from longshore.errors import InputFileError
from longshore.extensions.record_store import Record, RecordCounts
from longshore.job import Job
from longshore.scrape.records.attempt_index import AttemptIndex
from longshore.scrape.records.segment_lines import SUFFIX, AttemptHead, AttemptLine, SettledLine

T = TypeVar("T")

_CHUNK = 1 << 20

HEADS = msgspec.json.Decoder(AttemptHead | SettledLine)
_lines = msgspec.json.Decoder(AttemptLine | SettledLine)
_value = msgspec.json.Decoder()


class _Marked(NamedTuple):
    """The age and place of a marked attempt."""

    job: int
    """A hash of the job's queue and id."""
    revision: int
    at: float
    place: int


# A packed entry takes a third of the memory; there is one for each job of a run.
_PACKED = struct.Struct("<qIdQ")
_IN_SEGMENT = 40
"""Bits of the number of a line; the bits above have the number of its segment."""


class RecordReader:
    """The attempts in a folder of segments, and which of them count."""

    def __init__(self, folder: Path, *, run: str | None = None, queue_decides: bool = False) -> None:
        """Read all segments once. A folder that does not exist counts as empty.

        With `queue_decides`, no attempt counts until `count` is called with its job; otherwise the marked ones count.
        """
        self._run = run
        self.segments = sorted(folder.glob(f"*{SUFFIX}"))
        """The files, in the order in which they are read."""
        self._index = AttemptIndex() if queue_decides else None
        self._marked: dict[bytes, bytes] = {}
        self._unmarked: dict[tuple[str, str, int, int], tuple[AttemptHead, int]] = {}
        self._counted = [bytearray() for _ in self.segments]
        self.torn: dict[Path, int] = {}
        """Segments with a torn end, and its size in bytes. A killed writer may leave one."""
        self._read_heads()

    @property
    def unmarked(self) -> list[AttemptHead]:
        """Attempts without a mark: their worker died before writing it, is still running, or lost the lease."""
        return [head for head, _ in self._unmarked.values()]

    def count(self, completed: Iterable[Job]) -> None:
        """Count the attempts that completed these jobs of the queue that is read."""
        assert self._index is not None, "the reader was made for marks"  # noqa: S101 - a mistake of the caller
        for job in completed:
            if (place := self._index.place_of(job)) is not None:
                self._count(place)

    def records(self, kind: str | None = None) -> Iterator[Record]:
        """Yield every record that counts, once; with `kind`, only those of that kind. A job's records stay in order."""
        for line in self._counted_lines():
            for n, record in enumerate(line.records):
                if kind is None or record.kind == kind:
                    yield Record(
                        run=line.run,
                        job_kind=line.kind,
                        key=line.key,
                        epoch=line.epoch,
                        n=n,
                        kind=record.kind,
                        data=_value.decode(record.data),
                    )

    def tally(self) -> RecordCounts:
        """Return the number of records that count, and of rejected records by reason."""
        kept: Counter[str] = Counter()
        rejected: dict[str, Counter[str]] = {}
        for line in self._counted_lines():
            kept.update(record.kind for record in line.records)
            for entry in line.rejected:
                rejected.setdefault(entry.kind, Counter())[entry.reason] += entry.count
        return RecordCounts(dict(kept), {kind: dict(reasons) for kind, reasons in rejected.items()})

    def attempts(self) -> Iterator[AttemptHead]:
        """Yield every attempt in the segments, whether its records count or not."""
        for segment in self.segments:
            for text in segment_lines(segment, {}):
                line = read_line(HEADS, segment, text)
                if isinstance(line, AttemptHead) and self._run in (None, line.run):
                    yield line

    def _counted_lines(self) -> Iterator[AttemptLine]:
        for packed in self._marked.values():
            self._count(_Marked(*_PACKED.unpack(packed)).place)
        for segment, flags in zip(self.segments, self._counted, strict=True):
            # `flags` comes first, so that no line after the last counted one is read.
            for flag, text in zip(flags, segment_lines(segment, {}), strict=False):
                if flag:
                    line = read_line(_lines, segment, text)
                    if isinstance(line, AttemptLine):
                        yield line

    def _count(self, place: int) -> None:
        flags, line = self._counted[place >> _IN_SEGMENT], place & ((1 << _IN_SEGMENT) - 1)
        flags.extend(bytes(max(line + 1 - len(flags), 0)))
        flags[line] = 1

    def _read_heads(self) -> None:
        for number, segment in enumerate(self.segments):
            # Marks name no queue: a writer has one, and its marks apply to its own attempts.
            writer = segment.name.removesuffix(SUFFIX).rpartition(".")[0]
            for place, text in enumerate(segment_lines(segment, self.torn), start=number << _IN_SEGMENT):
                line = read_line(HEADS, segment, text)
                if isinstance(line, SettledLine):
                    self._mark(writer, line)
                elif self._run is None or line.run == self._run:
                    self._unmarked[writer, line.job, line.epoch, line.revision] = (line, place)
                    if self._index is not None:
                        self._index.add(line, place)

    def _mark(self, writer: str, line: SettledLine) -> None:
        revision = int(writer.rpartition(".r")[2]) if ".r" in writer else 0
        for job, epoch in line.attempts:
            if (entry := self._unmarked.pop((writer, job, epoch, revision), None)) is None:
                continue
            if self._index is None:
                self._choose(*entry)
            elif not entry[0].queue:
                self._index.add(*entry, marked=True)

    def _choose(self, head: AttemptHead, place: int) -> None:
        """Keep the newer attempt: the latest revision of a job, or the later of two jobs with the same key."""
        name = hashlib.sha256("\0".join((head.run, head.kind, head.key)).encode()).digest()[:16]
        found = _Marked(hash((head.queue, head.job)), head.revision, head.at, place)
        if (packed := self._marked.get(name)) is not None:
            other = _Marked(*_PACKED.unpack(packed))
            if other.job == found.job:
                newer = (found.revision, found.at) > (other.revision, other.at)
            else:
                newer = found.at > other.at
            if not newer:
                return
        self._marked[name] = _PACKED.pack(*found)


def read_line(decoder: msgspec.json.Decoder[T], segment: Path, text: bytes) -> T:
    """Return the line in `text`. Raise `InputFileError` if this version does not know it."""
    try:
        return decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise InputFileError(
            f"{segment} has a line that this Longshore cannot read: {error}. If a newer one wrote it, upgrade this one."
        ) from error


def segment_lines(segment: Path, torn: dict[Path, int]) -> Iterator[bytes]:
    """Yield the lines of a segment. Skip a torn end, and record its size in `torn`."""
    decompressor = zstandard.ZstdDecompressor()
    read = 0
    with segment.open("rb") as file:
        data = file.read(_CHUNK)
        while data:
            whole: list[bytes] = []
            frame = decompressor.decompressobj()
            begun = read
            try:
                while data and not frame.eof:
                    whole.append(frame.decompress(data))
                    read += len(data) - len(frame.unused_data)
                    data = frame.unused_data if frame.eof else file.read(_CHUNK)
            except zstandard.ZstdError:
                torn[segment] = segment.stat().st_size - begun
                return
            if not frame.eof:
                torn[segment] = read - begun
                return
            yield from b"".join(whole).split(b"\n")[:-1]
            data = data or file.read(_CHUNK)
