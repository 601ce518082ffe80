"""Room in a run that may have only so many jobs: taken before jobs are added, so that all workers together keep to it.

Authority: a note for each run, which says how much room each worker has taken and for which claim of a job.

    1. Read the note, then how many jobs the run has. What fits beside those and beside what others have taken may be
       taken.
    2. Write into the note that it is, in the place of what this worker took before. Where another was faster, begin
       anew.
    3. Settle. The jobs are in the run from then on, and what was taken for them counts twice until it is replaced.

Why it holds: whatever is added after the note was read was taken before, or the note is another one by now. So the jobs
there are and the room that is taken are never fewer than the jobs there will be.

Failures: a worker that dies, or loses its leases, between 2. and 3. leaves room taken that nobody will use. Where that
matters, for there is no room besides, the claim it was taken for is looked at: where the job is settled, or in other
hands, the room is free again. The jobs of one call are settled together, or refused together with their worker's
leases; where a person cancels or releases just that one job just then, a run may get more: what the others add.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import cast

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.shared_state import UNCHANGED, SharedState, StateEntry, update_entry
from longshore.job import State
from longshore.lease import Held
from longshore.queue import Queue, Selection, totals

QUOTA = "runs-room"
"""The shelf: of each run that may have only so many jobs, who has taken how much room."""
_FULL_SECONDS = 2.0
"""How long a run that is full counts as that, unasked."""


class _Taken(msgspec.Struct, frozen=True):
    job_id: str
    epoch: int
    room: int


class JobQuota:
    """What one worker takes."""

    def __init__(self, queue: Queue, clock: Clock, holder: str | None = None) -> None:
        """`holder` is the name under which it takes; a second connection of the same worker takes under the same."""
        self._queue = queue
        self._clock = clock
        self.holder = holder or secrets.token_hex(4)
        self._full: dict[str, tuple[float, int]] = {}

    async def take(self, run: str, limit: int, wanted: int, claim: Held) -> int:
        """Room for so many more jobs in a run that may have `limit`, or for as many as there is.

        It is for what is settled next, with this claim, and in the place of what was taken before, which is settled by
        now or never will be. `QueueUnavailableError` where others were faster again and again.
        """
        now = self._clock.monotonic()
        seen, size = self._full.get(run, (float("-inf"), 0))
        if not wanted or (size >= limit and now - seen < _FULL_SECONDS):
            return 0

        async def take(note: StateEntry, _: float) -> object:
            others = {who: taken for who, taken in _said(note.value).items() if who != self.holder}
            size = await self._size(run)
            if others and size < limit < size + _sum(others) + wanted:
                others = await self._in_use(others)
                # Again, for what was in use before may be jobs by now.
                size = await self._size(run)
            room = min(max(limit - size - _sum(others), 0), wanted)
            if not room:
                self._full[run] = now, size
                return UNCHANGED
            return msgspec.to_builtins({**others, self.holder: _Taken(claim.job_id, claim.epoch, room)})

        busy = QueueUnavailableError(f"Too many workers at once take room in run {run}. Trying again.")
        update = await update_entry(cast("SharedState", self._queue), QUOTA, run, take, busy)
        return _said(update.after.value)[self.holder].room if update.written else 0

    async def _size(self, run: str) -> int:
        return totals(await self._queue.stats(run)).total

    async def _in_use(self, others: Mapping[str, _Taken]) -> dict[str, _Taken]:
        """What may still become jobs."""
        ids = frozenset(taken.job_id for taken in others.values())
        claimed = Selection(ids=ids, states=frozenset({State.CLAIMED}))
        held = {Held(job.id, job.epoch) for job in await self._queue.jobs(claimed, limit=len(ids))}
        return {who: taken for who, taken in others.items() if Held(taken.job_id, taken.epoch) in held}


def _sum(taken: Mapping[str, _Taken]) -> int:
    return sum(each.room for each in taken.values())


def _said(value: object) -> dict[str, _Taken]:
    """What a note says; one that makes no sense here, of another version perhaps, says nothing."""
    try:
        return {} if value is None else msgspec.convert(value, dict[str, _Taken])
    except msgspec.ValidationError:
        return {}
