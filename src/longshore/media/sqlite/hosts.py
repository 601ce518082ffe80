"""Hosts as numbers: what an index of millions of jobs is ordered by is short, and nobody has to look it up."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

NAMELESS = 0
"""The number of the host without a name."""
LAST = 2**63 - 1
"""No host has a greater number."""


@lru_cache(maxsize=10_000)
def host_number(name: str) -> int:
    """The number of a host, the same everywhere and for ever: 63 bits of a digest, which do not collide.

    If two hosts ever did, they would share their turns and be closed together.
    """
    if not name:
        return NAMELESS
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") & LAST
