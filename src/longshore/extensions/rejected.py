"""Rejected files: files in the place of a medium's own files that are not jobs.

The medium moves them away so that they stop no worker. They stay until a person has looked at them.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class RejectedFiles(msgspec.Struct, frozen=True):
    """The rejected files that are still there."""

    count: int
    where: str
    """The place to look into, in words that fit into a sentence."""


@runtime_checkable
class KeepsRejected(Protocol):
    """Offered by a queue with the trait `keeps_rejected`."""

    async def rejected(self) -> RejectedFiles:
        """Return the rejected files that are still there. They include damaged jobs, which `stats` does not count."""
