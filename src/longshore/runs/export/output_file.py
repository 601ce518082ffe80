"""Output files that are written atomically and compressed if their names say so; and standard output."""

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
COMPRESSED = (".zst", ".gz")
"""Suffixes of files that are compressed."""
APPLICATION_ID = 0x4C53_4558
"""Marks a SQLite database as an export. Other databases are never overwritten."""

_PART = ".part"
_SQLITE = b"SQLite format 3\0"


@contextmanager
def atomic_output(target: Path, put: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yield a temporary file that replaces `target` after the block succeeds. Raise `OSError` if it cannot.

    If the target is a link, the file it points to is replaced. `put`, if given, moves the file into place instead.
    Several processes may write to one target at once; the last to finish wins. Temporary files that killed processes
    of this machine left beside the target are removed.
    """
    target = target.resolve() if target.is_symlink() else target
    _remove_abandoned(target)
    part = target.with_name(f"{target.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(3)}{_PART}")
    with atomic_file(target, part=part, durable=True, place=put):
        yield part


def _remove_abandoned(target: Path) -> None:
    """Remove unfinished files for this target whose writers are dead, and SQLite's files beside them."""
    ours = re.compile(rf"{re.escape(target.name)}\.{_machine()}-([0-9]+)-[0-9a-f]+{re.escape(_PART)}(-[a-z]+)?")
    # A process that may not list the folder or remove files may still be able to write.
    with suppress(OSError):
        for path in target.parent.iterdir():
            if (left := ours.fullmatch(path.name)) and not psutil.pid_exists(int(left[1])):
                path.unlink(missing_ok=True)


def _machine() -> str:
    """Return a name for this machine: on a shared folder, only the processes of this machine can be checked."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]


@contextmanager
def opened(out: str) -> Iterator[BinaryIO]:
    """Yield a stream to write to: standard output for `-`, else a file that is written atomically."""
    if out == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_output(Path(out)) as part, part.open("wb") as file, _compressed(file, Path(out).suffix) as packed:
        yield packed


@contextmanager
def _compressed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".zst":
        with zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False) as packed:
            yield cast("BinaryIO", packed)
    elif suffix == ".gz":
        # Without name and time, so that the same rows give the same bytes.
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed_gz:
            yield cast("BinaryIO", packed_gz)
    else:
        yield file


def place_name(out: str) -> str:
    """Return the name of the output, for messages."""
    return "standard output" if out == STDOUT else out


def check_out(out: str, option: str = "--out", given: str | None = None) -> None:
    """Raise `UsageError`, before any work is done, if the output cannot or must not be written.

    `given` is what the user wrote, if that is not `out`.
    """
    target, named = Path(out), f"{option} {given or out}"
    if out == STDOUT:
        return
    if target.is_dir():
        raise UsageError(f"{named} is a folder. Name a file in it, such as {target / 'results.jsonl'}.")
    if target.exists() and not target.is_file():
        # Do not read it, which may block for ever, and do not replace it: it may be /dev/null.
        raise UsageError(f"{named} is not a regular file. Name one, or write to standard output with -.")
    target = target.resolve() if target.is_symlink() else target
    if not target.parent.is_dir():
        raise UsageError(f"{named}: there is no folder {target.parent}. Create it, or choose another file.")
    if not os.access(target.parent, os.W_OK):
        raise UsageError(f"{named}: the folder {target.parent} cannot be written to. Choose another file.")
    if _is_foreign_database(target):
        raise UsageError(
            f"{named} is a database that no export wrote; it may be the queue itself. Choose another file, or "
            "remove it first."
        )


def _is_foreign_database(target: Path) -> bool:
    # Position of the application id in the header: https://www.sqlite.org/fileformat.html
    try:
        with target.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(_SQLITE) and head[68:72] != APPLICATION_ID.to_bytes(4, "big")
