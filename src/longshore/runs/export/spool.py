"""A spool: rows stored on disk until all are known, and read back in the order of arrival or sorted.

It is an external merge sort: rows that fit into memory are sorted and written as one run; then all runs are read and
merged, a block of each at a time. Everything is in one unnamed temporary file, which disappears with the process.
"""

from __future__ import annotations

import heapq
import itertools
import tempfile
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec
import zstandard

MOST_BYTES = 32 * 1024 * 1024
"""Bytes of rows that are sorted in memory."""
_OVERHEAD = 250
"""Bytes of memory that a row takes in addition to its content."""
FRAME = 64 * 1024
"""Bytes of rows that are compressed together. Merging holds one frame of each run in memory."""

Order = tuple[str | int, ...]
T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[tuple[str | int, ...], msgspec.Raw]).decode


class Spool:
    """Rows as JSON, each with its sort key."""

    def __init__(self, folder: Path | None, *, by_order: bool) -> None:
        """`folder` needs space for the compressed rows; None is the system's folder for temporary files."""
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed with the spool
        self._by_order = by_order
        self._waiting: list[tuple[Order, bytes]] = []
        self._bytes = 0
        self._runs: list[list[tuple[int, int]]] = []
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._decompressor = zstandard.ZstdDecompressor()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, order: Order, row: bytes) -> None:
        """Add a row of JSON with its sort key."""
        self._waiting.append((order, row))
        self._bytes += len(row) + (_OVERHEAD if self._by_order else 0)
        if self._bytes >= (MOST_BYTES if self._by_order else FRAME):
            self._write()

    def rows(self) -> Iterator[bytes]:
        """Yield all rows. Nothing may be added afterwards."""
        self._write()
        runs = [self._read(run) for run in self._runs]
        entries = heapq.merge(*runs, key=itemgetter(0)) if self._by_order else itertools.chain.from_iterable(runs)
        for _, row in entries:
            yield row

    def _write(self) -> None:
        if self._by_order:
            self._waiting.sort(key=itemgetter(0))
        if self._waiting:
            self._runs.append([self._append(lines) for lines in self._frames()])
        self._waiting, self._bytes = [], 0

    def _frames(self) -> Iterator[list[bytes]]:
        lines: list[bytes] = []
        size = 0
        for order, row in self._waiting:
            # Rows that are not sorted need no key.
            lines.append(_encode((order if self._by_order else (), msgspec.Raw(row))))
            size += len(row)
            if size >= FRAME:
                yield lines
                lines, size = [], 0
        if lines:
            yield lines

    def _append(self, lines: list[bytes]) -> tuple[int, int]:
        frame = self._compressor.compress(b"\n".join(lines))
        place = self._file.tell()
        self._file.write(frame)
        return place, len(frame)

    def _read(self, run: list[tuple[int, int]]) -> Iterator[tuple[Order, bytes]]:
        for place, length in run:
            self._file.seek(place)
            for line in self._decompressor.decompress(self._file.read(length)).split(b"\n"):
                order, row = _decode(line)
                yield order, bytes(row)
