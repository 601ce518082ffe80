"""The objects of the mirror, read and written in this process: starting git for each would cost more than the work.

New objects are written in git's formats: loose files for a few, one pack with its index for more. Packed objects are
read through one `git cat-file --batch` that stays open.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import subprocess
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from struct import pack as packed
from typing import NamedTuple

from longshore.errors import QueueError
from longshore.media.git.sync.git_command import GitCommand, command, environment
from longshore.system.atomic_file import write_atomically
from longshore.system.processes import new_group_flags

LARGEST = 65 << 20
"""Bytes of the largest object that is read or written; Longshore writes no larger one."""
_CACHE = 32 << 20
_FEW = 64
"""The number of objects up to which they are written loose; git reads both forms."""
_TYPES = {"commit": 1, "tree": 2, "blob": 3}


class TooLargeError(QueueError):
    """An object of the repository is larger than any that Longshore writes."""


class MissingError(QueueError):
    """The mirror lacks an object that it should have: it is damaged, and must be created again."""


class NewObject(NamedTuple):
    """An object to be written."""

    oid: str
    kind: str
    data: bytes


def new_object(kind: str, data: bytes) -> NewObject:
    """Return the object with this content; its id is the hash of the content."""
    return NewObject(
        hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).hexdigest(), kind, data
    )


class Objects:
    """Reads and writes the objects of a mirror. Used by one thread at a time."""

    def __init__(self, program: GitCommand) -> None:
        self._program = program
        self._folder = program.folder / "objects"
        self._reader: subprocess.Popen[bytes] | None = None
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._recent_size = 0

    def read(self, oid: str) -> bytes:
        """Return the content of an object. Raises `TooLargeError` and `MissingError`."""
        if (found := self._recent.get(oid)) is not None:
            self._recent.move_to_end(oid)
            return found
        data = self._read_loose(oid)
        if data is None:
            data = self._read_packed(oid)
        self._remember(oid, data)
        return data

    def write(self, objects: Iterable[NewObject]) -> None:
        """Store objects. A process that dies half-way leaves complete objects that nothing refers to."""
        wanted = {each.oid: each for each in objects}
        if len(wanted) <= _FEW:
            for each in wanted.values():
                self._write_loose(each)
        else:
            self._write_pack(list(wanted.values()))
        for each in wanted.values():
            self._remember(each.oid, each.data)

    def close(self) -> None:
        """End the reader process."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.kill()
            for stream in (reader.stdin, reader.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            reader.wait()

    def _remember(self, oid: str, data: bytes) -> None:
        if oid in self._recent or len(data) > _CACHE // 4:
            return
        self._recent[oid] = data
        self._recent_size += len(data)
        while self._recent_size > _CACHE:
            self._recent_size -= len(self._recent.popitem(last=False)[1])

    def _read_loose(self, oid: str) -> bytes | None:
        try:
            raw = (self._folder / oid[:2] / oid[2:]).read_bytes()
        except FileNotFoundError:
            return None
        inflate = zlib.decompressobj()
        try:
            head, _, start = inflate.decompress(raw, 4096).partition(b"\0")
            size = int(head.partition(b" ")[2])
            if size > LARGEST:
                raise TooLargeError(f"object {oid} has {size} bytes; Longshore writes none with more than {LARGEST}")
            rest = inflate.decompress(inflate.unconsumed_tail, size + 1) if inflate.unconsumed_tail else b""
        except (zlib.error, ValueError) as error:
            raise MissingError(f"object {oid} of the mirror '{self._program.folder}' is damaged") from error
        data = start + rest
        if len(data) != size:
            raise MissingError(f"object {oid} of the mirror '{self._program.folder}' is truncated")
        return data

    def _read_packed(self, oid: str) -> bytes:
        if self._reader is None:
            self._reader = subprocess.Popen(  # noqa: S603 - a list of arguments, never a shell
                command(self._program.folder, "cat-file", "--batch"),
                env=environment(),
                start_new_session=True,
                creationflags=new_group_flags(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        requests, replies = self._reader.stdin, self._reader.stdout
        if requests is None or replies is None:  # pragma: no cover - both are pipes, see above
            raise AssertionError
        try:
            requests.write(f"{oid}\n".encode())
            requests.flush()
        except BrokenPipeError:
            self.close()
            raise MissingError(f"the mirror '{self._program.folder}' cannot be read") from None
        _, _, header = replies.readline().decode().strip().partition(" ")
        _, _, size = header.partition(" ")
        if not size.isdigit():
            self.close()
            raise MissingError(
                f"object {oid} is missing in the mirror '{self._program.folder}'. It is a cache: stop the workers of "
                "this machine, delete that folder, and start them again."
            )
        if int(size) > LARGEST:
            self.close()  # so that the content need not be read
            raise TooLargeError(f"object {oid} has {size} bytes; Longshore writes none with more than {LARGEST}")
        data = replies.read(int(size))
        replies.read(1)
        return data

    def _write_loose(self, each: NewObject) -> None:
        target = self._folder / each.oid[:2] / each.oid[2:]
        if target.exists():
            return
        target.parent.mkdir(exist_ok=True)
        head = b"%s %d\0" % (each.kind.encode(), len(each.data))
        self._put(target, zlib.compress(head + each.data, 1))

    def _write_pack(self, objects: list[NewObject]) -> None:
        content = bytearray(b"PACK" + packed(">II", 2, len(objects)))
        offsets: dict[str, tuple[int, int]] = {}
        for each in objects:
            entry = _pack_head(each) + zlib.compress(each.data, 1)
            offsets[each.oid] = (len(content), zlib.crc32(entry))
            content += entry
        checksum = hashlib.sha1(content, usedforsecurity=False).digest()
        name = self._folder / "pack" / f"pack-{checksum.hex()}"
        # The pack first: git looks for packs by their index.
        self._put(name.with_suffix(".pack"), bytes(content) + checksum)
        self._put(name.with_suffix(".idx"), _pack_index(offsets, checksum))

    def _put(self, target: Path, content: bytes) -> None:
        # `git gc` removes files with this name that a crash left behind.
        write_atomically(target, content, part=self._folder / f"tmp_obj_{secrets.token_hex(6)}", private=True)


def _pack_head(each: NewObject) -> bytes:
    size = len(each.data)
    byte = (_TYPES[each.kind] << 4) | (size & 15)
    size >>= 4
    head = bytearray()
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head)


def _pack_index(offsets: dict[str, tuple[int, int]], checksum: bytes) -> bytes:
    """Return a pack index of version 2: fan-out table, object ids, checksums, offsets."""
    names = sorted(offsets)
    counts = [0] * 256
    for name in names:
        counts[int(name[:2], 16)] += 1
    total, fan_out = 0, []
    for number in counts:
        total += number
        fan_out.append(total)
    small: list[int] = []
    large: list[int] = []
    for name in names:
        offset = offsets[name][0]
        if offset < 1 << 31:
            small.append(offset)
        else:
            small.append((1 << 31) | len(large))
            large.append(offset)
    content = b"".join(
        (
            b"\xfftOc" + packed(">I", 2),
            packed(">256I", *fan_out),
            b"".join(bytes.fromhex(name) for name in names),
            packed(f">{len(names)}I", *(offsets[name][1] for name in names)),
            packed(f">{len(small)}I", *small),
            packed(f">{len(large)}Q", *large),
            checksum,
        )
    )
    return content + hashlib.sha1(content, usedforsecurity=False).digest()
