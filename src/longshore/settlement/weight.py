"""The weight of settlements: how much work a queue has to write them, by their follow-on jobs and bytes.

A call that takes longer than its limit is undone, and the same call again takes as long. So batches are kept light, and
a batch whose call took too long is divided.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from longshore.outcome import Completed, Settlement
from longshore.stored import Json

HEAVIEST = 10_000
"""The most that one call should write. A slow server writes this within a few seconds."""
_BYTES = 4096
"""This many bytes weigh as much as one job."""


def weight(settlement: Settlement) -> int:
    """Return 1 for the job, 1 for each follow-on job, and 1 for every 4 KB of results and payloads, roughly."""
    outcome = settlement.outcome
    if not isinstance(outcome, Completed):
        return 1
    jobs = outcome.jobs
    return 1 + len(jobs) + (_size(outcome.result) + sum(_size(job.payload) for job in jobs)) // _BYTES


def batches(settlements: Sequence[Settlement]) -> list[list[Settlement]]:
    """Return the settlements, in order, in as few batches as weigh at most `HEAVIEST`; a heavier one is alone."""
    found: list[list[Settlement]] = []
    room = -1
    for settlement in settlements:
        own = weight(settlement)
        if own > room:
            found.append([])
            room = HEAVIEST
        found[-1].append(settlement)
        room -= own
    return found


def halves(settlements: Sequence[Settlement]) -> list[list[Settlement]]:
    """Return two batches of the settlements, of which there are at least two."""
    middle = len(settlements) // 2
    return [list(settlements[:middle]), list(settlements[middle:])]


def described(settlement: Settlement) -> str:
    """Return what makes a settlement heavy, in words."""
    outcome = settlement.outcome
    jobs = outcome.jobs if isinstance(outcome, Completed) else ()
    size = _size(outcome.result) + sum(_size(job.payload) for job in jobs) if isinstance(outcome, Completed) else 0
    return f"{len(jobs):,} follow-on jobs and about {size / 1e6:,.1f} MB"


def _size(value: Json) -> int:
    """Return the bytes of an encoded value, or a lower bound: exact values would cost an encoding."""
    if isinstance(value, str | msgspec.Raw):
        return len(value)
    if isinstance(value, dict):
        return sum(len(each) for each in value.values() if isinstance(each, str))
    return 0
