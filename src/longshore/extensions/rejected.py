"""Rejected files: files in the place of a medium's own files that are not jobs.

The medium moves them away so that they stop no worker. They stay until a person has looked at them.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class RejectedFiles(msgspec.Struct, frozen=True):
    """The rejected files that are still there."""

    count: int
    """Files, and jobs whose files are missing."""
    where: str
    """The place to look into, in words that fit into a sentence."""


@runtime_checkable
class KeepsRejected(Protocol):
    """Offered by a queue with the trait `keeps_rejected`."""

    async def rejected(self, run: str | None = None) -> RejectedFiles:
        """Return the rejected files that are still there; with `run`, only those known to belong to it.

        They include damaged jobs, and jobs whose files a person removed: `stats` does not count them.
        """
