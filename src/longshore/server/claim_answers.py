"""The answers to the latest claims, for workers that did not get theirs.

A claim whose answer is lost has leased jobs that its worker does not know. If the worker repeats the claim under the
same id, it gets the same jobs instead of others. The answers are in memory and for minutes only: after a restart of the
server the jobs come back when the worker renews, which returns every lease that it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from longshore.errors import UsageError
from longshore.lease import WorkerId
from longshore.media.http.wire import ClaimedJob

KEPT_SECONDS = 120.0
_MOST = 10_000
_LONGEST_ID = 100


class ClaimAnswers:
    """The latest claim of each worker."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[str, asyncio.Task[list[ClaimedJob]]]] = {}

    async def once(
        self, worker: WorkerId, claim_id: str, claim: Callable[[], Awaitable[list[ClaimedJob]]]
    ) -> list[ClaimedJob]:
        """Return the answer to a claim, made now or before under the same id. Without an id, it is made now."""
        if not claim_id:
            return await claim()
        if len(claim_id) > _LONGEST_ID:
            raise UsageError(f"The id of a claim may have {_LONGEST_ID} characters.")
        known, task = self._latest.get(worker.incarnation, ("", None))
        if task is None or known != claim_id:
            task = asyncio.ensure_future(claim())
            if len(self._latest) >= _MOST:
                del self._latest[next(iter(self._latest))]
            self._latest[worker.incarnation] = claim_id, task
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, worker.incarnation, task)
        try:
            # The claim goes on if the client leaves: its answer is kept.
            return await asyncio.shield(task)
        except BaseException:
            if task.done():
                self._forget(worker.incarnation, task)
            raise

    def forget(self, worker: WorkerId) -> None:
        """Forget the answer to the latest claim of a worker: it does not hold these jobs any more."""
        self._latest.pop(worker.incarnation, None)

    def _forget(self, incarnation: str, task: asyncio.Task[list[ClaimedJob]]) -> None:
        if self._latest.get(incarnation, ("", None))[1] is task:
            del self._latest[incarnation]
