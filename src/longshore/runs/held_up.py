"""What keeps a run from going on, or jobs from joining it, by somebody's will: pauses and limits."""

from __future__ import annotations

from typing import cast

import msgspec

from longshore.notes import KeepsNotes
from longshore.queue import Queue
from longshore.runs.limits import LeftOut, Limits, left_out, limits_of
from longshore.runs.paused import EVERYTHING, paused


class HeldUp(msgspec.Struct, frozen=True, kw_only=True):
    """How that stands for a run, or for all of them."""

    paused: dict[str, float] = msgspec.field(default_factory=dict)
    """What is paused of it, and since when by the queue's clock; `EVERYTHING` is all runs."""
    left_out: LeftOut = LeftOut()
    """Follow-on jobs that limits kept from joining; only known of one run."""
    limits: Limits = Limits()
    """How far it may grow; only known of one run."""


async def held_up(queue: Queue, run: str | None) -> HeldUp:
    """What holds this run up, or any."""
    found = await paused(queue)
    if run is None:
        return HeldUp(paused=found)
    ours = {name: since for name, since in found.items() if name in (run, EVERYTHING)}
    if not queue.traits.keeps_notes:
        return HeldUp(paused=ours)
    limits = await limits_of(cast("KeepsNotes", queue), run)
    return HeldUp(paused=ours, left_out=await left_out(queue, run), limits=limits)
