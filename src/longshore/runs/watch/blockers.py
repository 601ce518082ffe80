"""What keeps a run from going on, or jobs from joining it, by somebody's will: pauses and limits."""

from __future__ import annotations

import msgspec

from longshore.extensions.find import find
from longshore.extensions.shared_state import SharedState
from longshore.queue import Queue
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, limits_of
from longshore.runs.control.pause import EVERYTHING, paused


class Blockers(msgspec.Struct, frozen=True, kw_only=True):
    """How that stands for a run, or for all of them."""

    paused: dict[str, float] = msgspec.field(default_factory=dict)
    """What is paused of it, and since when by the queue's clock; `EVERYTHING` is all runs."""
    left_out: LeftOut = LeftOut()
    """Follow-on jobs that limits kept from joining; only known of one run."""
    limits: GrowthLimits = GrowthLimits()
    """How far it may grow; only known of one run."""


async def blockers_of(queue: Queue, run: str | None) -> Blockers:
    """What holds this run up, or any."""
    found = await paused(queue)
    if run is None:
        return Blockers(paused=found)
    ours = {name: since for name, since in found.items() if name in (run, EVERYTHING)}
    state = find(queue, SharedState)
    if state is None:
        return Blockers(paused=ours)
    limits = await limits_of(state, run)
    return Blockers(paused=ours, left_out=await left_out(queue, run), limits=limits)
