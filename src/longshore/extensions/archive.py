"""The archive: completed jobs that nobody needs at hand, packed away. A medium that has one says so in its traits."""

from __future__ import annotations

from typing import Protocol

import msgspec

from longshore.queue import Queue, Selection


class Month(msgspec.Struct, frozen=True, kw_only=True):
    """What is archived of the jobs that were settled in one month."""

    month: str
    """`2026-11`, in UTC."""
    jobs: int
    files: int
    size: int
    """Bytes, packed as they are."""


class Archives(Queue, Protocol):
    """A queue with the trait `archives`."""

    async def archive(self, selection: Selection) -> int:
        """Pack completed jobs that are selected into the archive. Returns how many.

        A packed job is the same to everyone: counted, listed, known as a duplicate, removed by `prune`. One that is
        packed already is passed over. All or nothing, like everything in the contract.
        """

    async def archived(self) -> list[Month]:
        """What is in the archive, oldest month first."""

    async def forget_history(self) -> None:
        """Let go of how the queue came to stand as it stands, so that it takes the room of what it holds.

        No job, result or attempt is touched. Safe while workers run: they follow by themselves.
        """
