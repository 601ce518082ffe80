"""The partitions a worker may touch, as its supervisor tells it: in a file.

A command line has room for some thousands of names at most, and no sign that could not be part of a name.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from longshore.errors import UsageError
from longshore.system.atomic_file import write_atomically


def write_limits(path: Path, names: Collection[str]) -> Path:
    """Write them down. Whoever reads the file meanwhile finds it whole, as it was or as it is now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(sorted(names)))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. The workers learn from it which partitions are "
            "theirs: make its folder writable."
        ) from error
    return path


def read_limits(path: Path) -> frozenset[str]:
    """What `write_limits` wrote."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=frozenset[str])
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}. The fleet that starts a worker writes it.") from error
