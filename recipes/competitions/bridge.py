"""The queue for scripts that claim work themselves, under the names they know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Self, TypeVar

import longshore
from competitions.worker import KIND, queue_url
from longshore import Worker
from longshore.extensions.archive import Archives
from longshore.extensions.find import find
from longshore.job import State
from longshore.queue import Queue, Selection

T = TypeVar("T")


class _Claims(Worker):
    """Claims and settles the work orders of one worker. Their leases are renewed in the background."""

    kinds = (KIND,)


class GitHubWorkBridge:
    """The work in a repository: claim it, and hand in its result. Close it at the end, or use `with`."""

    def __init__(self, repo_url: str) -> None:
        self.repo_url = queue_url(repo_url)
        self._claims: dict[str, _Claims] = {}
        self._holders: dict[str, _Claims] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def claim_available_work(self, worker_id: str) -> dict[str, Any] | None:
        """Claim a work order for this worker, and return it; None if there is none now.

        It is this worker's alone until it is submitted. If the program dies, another worker gets it.
        """
        claims = self._claims.setdefault(worker_id, _Claims(self.repo_url, worker_id))
        task = claims.claim_task()
        if task is None:
            return None
        self._holders[task.id] = claims
        return {"id": task.id, **task.params}

    def submit_completed_work(self, work_order: Mapping[str, Any], results: Mapping[str, Any]) -> bool:
        """Hand in the result of a claimed work order. Return False if it went to another worker meanwhile."""
        return self._holders.pop(work_order["id"]).complete_task(work_order["id"], dict(results)) is not False

    def submit_failed_work(self, work_order: Mapping[str, Any], error_message: str) -> bool:
        """Put a claimed work order into the retry queue, with the error; after four attempts it has failed for good."""
        error = longshore.ConnectionFailedError(error_message)
        return self._holders.pop(work_order["id"]).fail_task(work_order["id"], error) is not False

    def get_archive_statistics(self) -> dict[str, Any]:
        """Return how many jobs and bytes are archived, in all and for each month."""

        async def statistics(queue: Queue) -> dict[str, Any]:
            archive = find(queue, Archives)
            months = [] if archive is None else await archive.archived()
            return {
                "total_jobs": sum(month.jobs for month in months),
                "total_bytes": sum(month.size for month in months),
                "months": {month.month: {"jobs": month.jobs, "bytes": month.size} for month in months},
            }

        return self._with_queue(statistics)

    def cleanup_old_archives(self, days_to_keep: int = 90) -> int:
        """Remove completed jobs that were settled longer ago than that, and return how many."""
        old = Selection(states=frozenset({State.COMPLETED}), older_than=timedelta(days=days_to_keep))
        return self._with_queue(lambda queue: queue.prune(old))

    def close(self) -> None:
        """Give back what is claimed and not handed in."""
        for claims in self._claims.values():
            claims.close()
        self._claims.clear()
        self._holders.clear()

    def _with_queue(self, call: Callable[[Queue], Awaitable[T]]) -> T:
        async def opened() -> T:
            queue = await longshore.open_queue(self.repo_url)
            try:
                return await call(queue)
            finally:
                await queue.close()

        return asyncio.run(opened())
