"""The archive: completed jobs in packed form, for media on which many completed jobs cost time or space."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from longshore.queue import Selection


class Month(msgspec.Struct, frozen=True, kw_only=True):
    """The archived jobs that were settled in one month."""

    month: str
    """`2026-11`, in UTC."""
    jobs: int
    files: int
    size: int
    """The size of the packed files in bytes."""


@runtime_checkable
class Archives(Protocol):
    """Offered by a queue with the trait `archives`."""

    async def archive(self, selection: Selection) -> int:
        """Pack the selected completed jobs into the archive. Return how many were packed.

        An archived job behaves as before: it is counted and listed, counts as a duplicate, and `prune` removes it. Jobs
        that are archived already are skipped. All or nothing, like every method of the contract.
        """

    async def archived(self) -> list[Month]:
        """Return the contents of the archive, oldest month first."""

    async def forget_history(self) -> None:
        """Delete the history of the queue's own storage, so that it only takes the space of its present contents.

        No job, result or attempt is changed. Safe while workers run: they switch to the new storage by themselves.
        """
