"""Reading records: first which attempts count, then their records, one after another.

    survey = Survey(folder, run="monday")
    survey.decide([...])              of `survey.undecided`, those that the queue has completed at that very epoch
    for record in survey.records(): ...

The first reading keeps one small entry for each job, never a record. What is written meanwhile is not seen.
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
    """An attempt line: how new it is, and where it stands."""

    job: int
    """Tells one id from another."""
    revision: int
    at: float
    segment: int
    place: int


# Packed, an entry takes a third of the memory; there is one for each job of a run.
_PACKED = struct.Struct("<qIdIQ")


class RecordReader:
    """The attempts of a folder of segments, and which of them count."""

    def __init__(self, folder: Path, *, run: str | None = None) -> None:
        """Read through all segments once. A folder that is not there holds nothing."""
        self._run = run
        self.segments = sorted(folder.glob(f"*{SUFFIX}"))
        """The files, in the order in which they are read."""
        self._chosen: dict[bytes, bytes] = {}
        self._undecided: dict[tuple[str, str, int, int], tuple[Undecided, bytes, _Found]] = {}
        self.torn: dict[Path, int] = {}
        """Segments whose end cannot be read, and how many bytes that is. One whose writer was killed may have one."""
        self._read_heads()

    @property
    def undecided(self) -> list[Undecided]:
        """Attempts without a mark: their worker died before it was written, or is at work now, or lost its lease."""
        return list(dict.fromkeys(undecided for undecided, _, _ in self._undecided.values()))

    def decide(self, settled: Iterable[Undecided]) -> None:
        """These of the undecided are completed, at their very epoch. Those that are never named do not count."""
        known = set(settled)
        for attempt, (undecided, name, found) in list(self._undecided.items()):
            if undecided in known:
                del self._undecided[attempt]
                self._choose(name, found)

    def records(self, kind: str | None = None) -> Iterator[Record]:
        """Every record that counts, of one kind or of all, each once. A job's records come together, in order."""
        for line in self._counting():
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
        """How many records count, and how many were rejected for which reason."""
        kept: Counter[str] = Counter()
        rejected: dict[str, Counter[str]] = {}
        for line in self._counting():
            kept.update(record.kind for record in line.records)
            for entry in line.rejected:
                rejected.setdefault(entry.kind, Counter())[entry.reason] += entry.count
        return RecordCounts(dict(kept), {kind: dict(reasons) for kind, reasons in rejected.items()})

    def _counting(self) -> Iterator[AttemptLine]:
        counts = [bytearray() for _ in self.segments]
        for packed in self._chosen.values():
            found = _Found(*_PACKED.unpack(packed))
            flags = counts[found.segment]
            flags.extend(bytes(max(found.place + 1 - len(flags), 0)))
            flags[found.place] = 1
        for segment, flags in zip(self.segments, counts, strict=True):
            # In this order: no line is read beyond the last that counts.
            for flag, text in zip(flags, _texts(segment, {}), strict=False):
                if flag:
                    line = _read(_lines, segment, text)
                    if isinstance(line, AttemptLine):
                        yield line

    def _read_heads(self) -> None:
        for number, segment in enumerate(self.segments):
            # Ids belong to a queue, and a writer to one queue: its marks speak of its own attempts alone.
            writer = segment.name.removesuffix(SUFFIX).rpartition(".")[0]
            for place, text in enumerate(_texts(segment, self.torn)):
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
        """Of a job that was removed and submitted again, the later one counts; of one job, the latest revision."""
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


def _texts(segment: Path, torn: dict[Path, int]) -> Iterator[bytes]:
    """The lines of a segment. Its torn end is passed over, and noted."""
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
