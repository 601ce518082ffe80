"""Reasons why a run is blocked or jobs are kept out of it: pauses, limits, duplicates whose payloads differ."""

from __future__ import annotations

import msgspec

from longshore.extensions.find import find
from longshore.extensions.shared_state import SharedState
from longshore.queue import Queue
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, limits_of
from longshore.runs.control.pause import EVERYTHING, paused
from longshore.wrappers.differing_duplicates import DifferingDuplicates, differing_of


class Blockers(msgspec.Struct, frozen=True, kw_only=True):
    """The pauses, limits and differing duplicates of one run, or those of all runs."""

    paused: dict[str, float] = msgspec.field(default_factory=dict)
    """Paused runs, with the time of the pause by the queue's clock; `EVERYTHING` stands for all runs."""
    left_out: LeftOut = LeftOut()
    """Follow-on jobs that the limits left out; only filled for a single run."""
    differing: dict[str, DifferingDuplicates] = msgspec.field(default_factory=dict)
    """By run, the jobs that were left out as duplicates although their payloads differ."""
    limits: GrowthLimits = GrowthLimits()
    """How far the run may grow; only filled for a single run."""


async def blockers_of(queue: Queue, run: str | None) -> Blockers:
    """Return what blocks `run`, or any run for None."""
    found = await paused(queue)
    state = find(queue, SharedState)
    differing = {} if state is None else await differing_of(state, run)
    if run is None:
        return Blockers(paused=found, differing=differing)
    ours = {name: since for name, since in found.items() if name in (run, EVERYTHING)}
    if state is None:
        return Blockers(paused=ours)
    limits = await limits_of(state, run)
    return Blockers(paused=ours, left_out=await left_out(queue, run), differing=differing, limits=limits)
