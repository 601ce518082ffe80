"""Hosts as numbers: keeps the key of an index of millions of jobs short, without a lookup table."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

NAMELESS = 0
"""The number of the host without a name."""
LAST = 2**63 - 1
"""No host has a greater number."""


@lru_cache(maxsize=10_000)
def host_number(name: str) -> int:
    """Return the number of a host: 63 bits of a digest of its name, the same in every process and version.

    A collision is practically impossible; two such hosts would share their turns and be excluded together.
    """
    if not name:
        return NAMELESS
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") & LAST
