"""Files that appear whole or not at all, packed as their names say; and standard output."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import psutil
import zstandard

from longshore.errors import UsageError
from longshore.system.atomic_file import atomic_file

STDOUT = "-"
PACKED = (".zst", ".gz")
"""Endings of names for which the content is compressed."""
APPLICATION_ID = 0x4C53_4558
"""What says of a SQLite database that it is an export: another one is never written over."""

_PART = ".part"
_SQLITE = b"SQLite format 3\0"


@contextmanager
def whole(target: Path, put: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """A file to write to, which takes its place once the block has ended well. `OSError` where it cannot.

    A link stays one: what it leads to is replaced. `put`, where given, puts the file where it belongs instead. Any
    number may write to one target at once: the last to end counts. What writers that were killed on this machine left
    beside the target is removed.
    """
    target = target.resolve() if target.is_symlink() else target
    _sweep(target)
    part = target.with_name(f"{target.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(3)}{_PART}")
    with atomic_file(target, part=part, durable=True, place=put):
        yield part


def _sweep(target: Path) -> None:
    """Remove unfinished files for this target whose writers are dead, and what SQLite had beside them."""
    ours = re.compile(rf"{re.escape(target.name)}\.{_machine()}-([0-9]+)-[0-9a-f]+{re.escape(_PART)}(-[a-z]+)?")
    # Whoever may not look here, or remove one, may still write.
    with suppress(OSError):
        for path in target.parent.iterdir():
            if (left := ours.fullmatch(path.name)) and not psutil.pid_exists(int(left[1])):
                path.unlink(missing_ok=True)


def _machine() -> str:
    """What tells this machine, whose processes can be asked for, from others that share the folder."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]


@contextmanager
def opened(out: str) -> Iterator[BinaryIO]:
    """Somewhere to write to: standard output for `-`, else a file that is whole or not there."""
    if out == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole(Path(out)) as part, part.open("wb") as file, _packing(file, Path(out).suffix) as packed:
        yield packed


@contextmanager
def _packing(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".zst":
        with zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False) as packed:
            yield cast("BinaryIO", packed)
    elif suffix == ".gz":
        # Without a name and a time: the same rows are the same bytes.
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed_gz:
            yield cast("BinaryIO", packed_gz)
    else:
        yield file


def place_name(out: str) -> str:
    """What to call it in a message."""
    return "standard output" if out == STDOUT else out


def check_out(out: str) -> None:
    """Refuse, before any work is done, a place that could not be written to, or must not be."""
    target = Path(out)
    if out == STDOUT:
        return
    if target.is_dir():
        raise UsageError(f"--out {out} is a folder. Name a file in it, such as {target / 'results.jsonl'}.")
    if target.exists() and not target.is_file():
        # Neither looked into, which may wait for ever, nor replaced: there may be no second /dev/null.
        raise UsageError(f"--out {out} is no ordinary file. Name one, or write to standard output with -.")
    target = target.resolve() if target.is_symlink() else target
    if not target.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {target.parent}. Make it first, or choose another place.")
    if not os.access(target.parent, os.W_OK):
        raise UsageError(f"--out {out}: the folder {target.parent} cannot be written to. Choose another place.")
    if _is_a_database_of_others(target):
        raise UsageError(
            f"--out {out} is a database that no export wrote; it may be the queue itself. Choose another place, or "
            "remove it first."
        )


def _is_a_database_of_others(target: Path) -> bool:
    # Its application id stands at this place of the header: https://www.sqlite.org/fileformat.html
    try:
        with target.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(_SQLITE) and head[68:72] != APPLICATION_ID.to_bytes(4, "big")
