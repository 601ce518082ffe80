"""Settings made by people that block a run or keep jobs out of it: pauses and growth limits."""

from __future__ import annotations

import msgspec

from longshore.extensions.find import find
from longshore.extensions.shared_state import SharedState
from longshore.queue import Queue
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, limits_of
from longshore.runs.control.pause import EVERYTHING, paused


class Blockers(msgspec.Struct, frozen=True, kw_only=True):
    """The pauses and limits of one run, or the pauses of all runs."""

    paused: dict[str, float] = msgspec.field(default_factory=dict)
    """Paused runs, with the time of the pause by the queue's clock; `EVERYTHING` stands for all runs."""
    left_out: LeftOut = LeftOut()
    """Follow-on jobs that the limits left out; only filled for a single run."""
    limits: GrowthLimits = GrowthLimits()
    """How far the run may grow; only filled for a single run."""


async def blockers_of(queue: Queue, run: str | None) -> Blockers:
    """Return what blocks `run`, or any run for None."""
    found = await paused(queue)
    if run is None:
        return Blockers(paused=found)
    ours = {name: since for name, since in found.items() if name in (run, EVERYTHING)}
    state = find(queue, SharedState)
    if state is None:
        return Blockers(paused=ours)
    limits = await limits_of(state, run)
    return Blockers(paused=ours, left_out=await left_out(queue, run), limits=limits)
