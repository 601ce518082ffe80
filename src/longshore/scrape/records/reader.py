"""Read records: first find the attempts that count, then stream their records.

    reader = RecordReader(folder, run="monday")
    reader.decide([...])              those of `reader.undecided` that the queue has completed at the same epoch
    for record in reader.records(): ...

The first pass keeps one small entry per job in memory, never a record. Records written in the meantime are not read.
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
from longshore.extensions.record_store import Record, RecordCounts, Undecided
from longshore.scrape.records.segment_lines import SUFFIX, AttemptHead, AttemptLine, SettledLine

T = TypeVar("T")

_CHUNK = 1 << 20

_heads = msgspec.json.Decoder(AttemptHead | SettledLine)
_lines = msgspec.json.Decoder(AttemptLine | SettledLine)
_value = msgspec.json.Decoder()


class _Found(NamedTuple):
    """The age and position of an attempt line."""

    job: int
    """A hash of the job's id."""
    revision: int
    at: float
    segment: int
    place: int


# A packed entry takes a third of the memory; there is one for each job of a run.
_PACKED = struct.Struct("<qIdIQ")


class RecordReader:
    """The attempts in a folder of segments, and which of them count."""

    def __init__(self, folder: Path, *, run: str | None = None) -> None:
        """Read all segments once. A folder that does not exist counts as empty."""
        self._run = run
        self.segments = sorted(folder.glob(f"*{SUFFIX}"))
        """The files, in the order in which they are read."""
        self._chosen: dict[bytes, bytes] = {}
        self._undecided: dict[tuple[str, str, int, int], tuple[Undecided, bytes, _Found]] = {}
        self.torn: dict[Path, int] = {}
        """Segments with a torn end, and its size in bytes. A killed writer may leave one."""
        self._read_heads()

    @property
    def undecided(self) -> list[Undecided]:
        """Attempts without a mark: their worker died before writing it, is still running, or lost the lease."""
        return list(dict.fromkeys(undecided for undecided, _, _ in self._undecided.values()))

    def decide(self, settled: Iterable[Undecided]) -> None:
        """Count these undecided attempts: the queue completed them at the same epoch. Others never count."""
        known = set(settled)
        for attempt, (undecided, name, found) in list(self._undecided.items()):
            if undecided in known:
                del self._undecided[attempt]
                self._choose(name, found)

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

    def _counted_lines(self) -> Iterator[AttemptLine]:
        counts = [bytearray() for _ in self.segments]
        for packed in self._chosen.values():
            found = _Found(*_PACKED.unpack(packed))
            flags = counts[found.segment]
            flags.extend(bytes(max(found.place + 1 - len(flags), 0)))
            flags[found.place] = 1
        for segment, flags in zip(self.segments, counts, strict=True):
            # `flags` comes first, so that no line after the last counted one is read.
            for flag, text in zip(flags, _segment_lines(segment, {}), strict=False):
                if flag:
                    line = _read(_lines, segment, text)
                    if isinstance(line, AttemptLine):
                        yield line

    def _read_heads(self) -> None:
        for number, segment in enumerate(self.segments):
            # A job id is unique only within a queue, and a writer has one queue: its marks apply to its own attempts.
            writer = segment.name.removesuffix(SUFFIX).rpartition(".")[0]
            for place, text in enumerate(_segment_lines(segment, self.torn)):
                line = _read(_heads, segment, text)
                if isinstance(line, SettledLine):
                    self._mark(writer, line)
                elif self._run is None or line.run == self._run:
                    undecided = Undecided(line.run, line.kind, line.key, line.job, line.epoch)
                    name = hashlib.sha256("\0".join((line.run, line.kind, line.key)).encode()).digest()[:16]
                    found = _Found(hash(line.job), line.revision, line.at, number, place)
                    self._undecided[writer, line.job, line.epoch, line.revision] = (undecided, name, found)

    def _mark(self, writer: str, line: SettledLine) -> None:
        revision = int(writer.rpartition(".r")[2]) if ".r" in writer else 0
        for job, epoch in line.attempts:
            if (entry := self._undecided.pop((writer, job, epoch, revision), None)) is not None:
                self._choose(entry[1], entry[2])

    def _choose(self, name: bytes, found: _Found) -> None:
        """Keep the newer attempt: the latest revision of a job, or the later of two jobs with the same key."""
        if (packed := self._chosen.get(name)) is not None:
            other = _Found(*_PACKED.unpack(packed))
            if other.job == found.job:
                newer = (found.revision, found.at) > (other.revision, other.at)
            else:
                newer = found.at > other.at
            if not newer:
                return
        self._chosen[name] = _PACKED.pack(*found)


def _read(decoder: msgspec.json.Decoder[T], segment: Path, text: bytes) -> T:
    try:
        return decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise InputFileError(
            f"{segment} has a line that this Longshore cannot read: {error}. If a newer one wrote it, upgrade this one."
        ) from error


def _segment_lines(segment: Path, torn: dict[Path, int]) -> Iterator[bytes]:
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
