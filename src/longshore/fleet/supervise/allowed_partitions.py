"""The partitions that a worker may claim from; the supervisor passes them in a file.

A command line would be too short for many thousands of names, and any separator could be part of a name.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from longshore.errors import UsageError
from longshore.system.atomic_file import write_atomically
from longshore.system.private_files import make_private


def write_limits(path: Path, names: Collection[str]) -> Path:
    """Write the names atomically: a concurrent reader gets the complete old or the complete new file."""
    try:
        make_private(path.parent)
        write_atomically(path, msgspec.json.encode(sorted(names)))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. The workers read their partitions from it: "
            "make its folder writable."
        ) from error
    return path


def read_limits(path: Path) -> frozenset[str]:
    """Return the names that `write_limits` wrote."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=frozenset[str])
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}. The fleet that starts a worker writes it.") from error
