"""Lost claims: how often another worker was faster. Counted by media on which a lost claim costs something."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class ClaimStats(Protocol):
    """Offered by a queue with the trait `counts_lost_claims`."""

    async def claim_success_rate(self) -> float:
        """Return the share of all claims ever tried on this queue that were not lost; 1 if none was tried."""
