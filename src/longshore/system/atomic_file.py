"""Write a file atomically: a reader, or a crash at any moment, finds the old content or the new, never a part of it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_file(
    target: Path,
    *,
    part: Path | None = None,
    durable: bool = False,
    place: Callable[[Path], object] | None = None,
) -> Iterator[Path]:
    """Yield a path to write to, which replaces `target` after the block. If the block raises, `target` stays.

    The path is `part`, or a new name beside `target` that no other writer uses. An existing `target` keeps its
    permissions. With `durable` the content is on the disk before it replaces anything. `place`, if given, is called
    with the written path and puts it in place itself. Raises `OSError` if the file cannot be written.
    """
    # Random: machines that share the folder may share process ids.
    part = part or target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        if durable:
            _sync(part)
        if place is not None:
            place(part)
        else:
            # Some volumes have no permissions to set.
            with suppress(OSError):
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_atomically(
    target: Path, content: bytes, *, part: Path | None = None, durable: bool = False, private: bool = False
) -> None:
    """Write `content` to `target` as `atomic_file` does. Only its owner can read a new `private` file."""
    with atomic_file(target, part=part, durable=durable) as temporary:
        if private:
            # Before there is anything to read.
            temporary.touch(0o600, exist_ok=False)
        temporary.write_bytes(content)


def _sync(path: Path) -> None:
    # Windows syncs only what is open for writing.
    opened = os.open(path, os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
