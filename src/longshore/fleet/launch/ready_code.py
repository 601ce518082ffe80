"""Published code that is ready to run on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ReadyCode:
    """A version that is accepted, unpacked and installed."""

    fingerprint: str
    file: Path
    """The handler file."""
    python: str
    """The interpreter that has its requirements."""
