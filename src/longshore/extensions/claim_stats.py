"""Lost races: claims that another worker was faster at. A medium on which they cost something counts them."""

from __future__ import annotations

from typing import Protocol

from longshore.queue import Queue


class ClaimStats(Queue, Protocol):
    """A queue with the trait `counts_races`."""

    async def claim_success_rate(self) -> float:
        """The share of all claims ever tried on this queue that nobody else was faster at; 1 if none was tried."""
