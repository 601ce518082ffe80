"""The quota of new jobs in a run with `--max-jobs`, taken before jobs are added so that all workers keep the limit.

Authority: a shared entry for each run. It says how much quota each worker has taken, and for which claim of a job.

    1. Read the entry, then the number of jobs in the run. Quota may be taken as far as it
       fits beside those jobs and the quota of other workers.
    2. Write the new quota into the entry, in the place of what this worker took before. If another writer was faster,
       begin again with 1.
    3. Settle. The jobs are in the run from then on, and their quota counts twice until it is replaced.

Why it holds: jobs that are added after the entry was read had their quota taken before, or the entry has changed by
now. So the jobs in the run and the quota taken are together never fewer than the jobs the run will have.

Failures: a worker that dies or loses its leases between 2 and 3 leaves quota that it will never use. When no other
quota is left, the claim it was taken for is looked up: if the job is settled or held by another worker, the quota is
free again. A process that adds jobs without a claim registers as a submission (see `admission`), and its quota is free
again when that registration has ended or expired. The jobs of one call are settled together, or refused together with
their worker's leases. Only if a person cancels or releases just that one job at just that moment may a run exceed its
limit, by the jobs that the others add.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.find import find, require
from longshore.extensions.presence import WorkerRegistry
from longshore.extensions.shared_state import UNCHANGED, SharedState, StateEntry, update_entry
from longshore.job import State
from longshore.lease import Held
from longshore.queue import Queue, Selection, totals

QUOTA = "runs-room"
"""The namespace with an entry for each run with `--max-jobs`: the quota that each worker has taken."""
SUBMITTER = 0
"""The epoch, which no claim has, of quota that was taken by a registered submission; its id is the incarnation."""
_FULL_SECONDS = 2.0
"""Seconds for which a run that was full is taken to be full without asking."""


class _Taken(msgspec.Struct, frozen=True):
    job_id: str
    epoch: int
    room: int


class JobQuota:
    """The quota of one worker."""

    def __init__(self, queue: Queue, clock: Clock, holder: str | None = None) -> None:
        """`holder` is the name under which it takes quota; a second connection of the same worker uses the same."""
        self._queue = queue
        self._clock = clock
        self.holder = holder or secrets.token_hex(4)
        self._full: dict[str, tuple[float, int]] = {}

    async def take(self, run: str, limit: int, wanted: int, claim: Held) -> int:
        """Take quota for up to `wanted` more jobs in a run that may have `limit` jobs. Return how much was taken.

        It is for the next settlement, which has this `claim`, or for the next jobs of a submission. It replaces the
        quota taken before, whose settlement is written by now or never will be. Raise `QueueUnavailableError` if other
        writers were faster every time.
        """
        now = self._clock.monotonic()
        seen, size = self._full.get(run, (float("-inf"), 0))
        if not wanted or (size >= limit and now - seen < _FULL_SECONDS):
            return 0

        async def take(entry: StateEntry, _: float) -> object:
            others = {holder: taken for holder, taken in _decoded(entry.value).items() if holder != self.holder}
            size = await self._size(run)
            if others and size < limit < size + _sum(others) + wanted:
                others = await self._in_use(others)
                # Count again: quota that was in use before may have become jobs by now.
                size = await self._size(run)
            quota = min(max(limit - size - _sum(others), 0), wanted)
            if not quota:
                self._full[run] = now, size
                return UNCHANGED
            return msgspec.to_builtins({**others, self.holder: _Taken(claim.job_id, claim.epoch, quota)})

        state = require(self._queue, SharedState, "cannot limit the number of jobs in a run.")
        busy = QueueUnavailableError(f"Too many workers take quota in run {run} at the same time. Trying again.")
        update = await update_entry(state, QUOTA, run, take, busy)
        return _decoded(update.after.value)[self.holder].room if update.written else 0

    async def _size(self, run: str) -> int:
        return totals(await self._queue.stats(run)).total

    async def _in_use(self, others: Mapping[str, _Taken]) -> dict[str, _Taken]:
        """Return the quota that may still become jobs."""
        ids = frozenset(taken.job_id for taken in others.values() if taken.epoch != SUBMITTER)
        claimed = Selection(ids=ids, states=frozenset({State.CLAIMED}))
        held = {Held(job.id, job.epoch) for job in await self._queue.jobs(claimed, limit=len(ids))}
        registry = find(self._queue, WorkerRegistry)
        if registry is not None and any(taken.epoch == SUBMITTER for taken in others.values()):
            held |= {Held(each.worker.incarnation, SUBMITTER) for each in await registry.present_workers()}
        return {holder: taken for holder, taken in others.items() if Held(taken.job_id, taken.epoch) in held}


def _sum(taken: Mapping[str, _Taken]) -> int:
    return sum(each.room for each in taken.values())


def _decoded(value: object) -> dict[str, _Taken]:
    """Return the quota of each holder; none for a value that this version does not understand."""
    try:
        return {} if value is None else msgspec.convert(value, dict[str, _Taken])
    except msgspec.ValidationError:
        return {}
