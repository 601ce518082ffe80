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
_SIZED = (str, msgspec.Raw)
"""A tuple: a union would be made again for every settlement."""


def weight(settlement: Settlement) -> int:
    """Return 1 for the job, 1 for each follow-on job, and 1 for every 4 KB of results and payloads, roughly."""
    outcome = settlement.outcome
    if type(outcome) is not Completed:
        return 1
    result = outcome.result
    if not outcome.jobs and type(result) is msgspec.Raw:
        # Nearly every outcome of a worker.
        return 1 + len(result) // _BYTES
    return 1 + len(outcome.jobs) + _bytes(outcome) // _BYTES


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
    jobs, size = (len(outcome.jobs), _bytes(outcome)) if isinstance(outcome, Completed) else (0, 0)
    return f"{jobs:,} follow-on jobs and about {size / 1e6:,.1f} MB"


def _bytes(outcome: Completed) -> int:
    """Return the bytes of the result and the payloads, or a lower bound: exact values would cost an encoding."""
    # Plain loops: every follow-on job of a worker comes through here.
    size = _size(outcome.result)
    for job in outcome.jobs:
        size += _size(job.payload)
    return size


def _size(value: Json) -> int:
    if isinstance(value, dict):
        size = 0
        for each in value.values():
            if isinstance(each, str):
                size += len(each)
        return size
    return len(value) if isinstance(value, _SIZED) else 0
