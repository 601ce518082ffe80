"""The URL queue for scripts that claim URLs themselves, under the names they know.

    for claimed in claim_batch("India", run_id, "script-1", 10):
        complete_url(claimed, {"packs": scrape(claimed.url)})

Each claim is fenced: once its lease has expired, `complete_url` and `fail_url` change nothing and return False. (In a
folder or in git, which have no clock, a claim is refused as soon as another process has seen that it expired.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import longshore
from longshore.clock import SystemClock
from longshore.errors import Failure
from longshore.lease import Lease, Want, WorkerId
from longshore.outcome import Completed, Failed, Outcome, Settlement
from longshore.settings import resolve
from longshore.stored import Json
from longshore.wrappers.worker_queue import WorkerQueue
from registers.orchestrator import ScraperOrchestrator
from registers.scrapers import find

T = TypeVar("T")

BATCH, LEASE_SECONDS = 10, 300


@dataclass(frozen=True)
class ClaimedUrl:
    """A URL that is one worker's alone until its lease expires."""

    url: str
    lease: Lease

    @property
    def retry_count(self) -> int:
        """How many attempts were made before this one."""
        return self.lease.job.attempts


def enqueue_urls(scraper: str, run_id: str, urls: Iterable[str | Mapping[str, object]]) -> dict[str, int]:
    """Put URLs into a run, each once, and return how many were `enqueued` and how many `duplicates` left out."""
    done = longshore.submit(find(scraper).kind or "", list(urls), run=run_id)
    return {"enqueued": done.submitted, "duplicates": done.duplicates}


def claim_batch(
    scraper: str, run_id: str, worker_id: str, batch_size: int = BATCH, lease_seconds: float = LEASE_SECONDS
) -> list[ClaimedUrl]:
    """Claim up to `batch_size` URLs of a run at once; an empty list if there are none now."""
    want = Want(
        worker=WorkerId.new(worker_id),
        limit=batch_size,
        lease=timedelta(seconds=lease_seconds),
        run=run_id,
        kinds=frozenset({find(scraper).kind or ""}),
    )

    async def claim(queue: WorkerQueue) -> list[ClaimedUrl]:
        return [ClaimedUrl(str(lease.job.payload.get("url", "")), lease) for lease in await queue.claim(want)]

    return _with_queue(claim)


def renew_batch(claimed: Iterable[ClaimedUrl], lease_seconds: float = LEASE_SECONDS) -> list[ClaimedUrl]:
    """Extend the leases of a batch from now on, and return those claims that are still held."""
    batch = list(claimed)

    async def renew(queue: WorkerQueue) -> list[ClaimedUrl]:
        workers = {each.lease.worker for each in batch}
        lease = timedelta(seconds=lease_seconds)
        held = {(worker, each) for worker in workers for each in await queue.renew(worker, lease)}
        return [each for each in batch if (each.lease.worker, each.lease.held) in held]

    return _with_queue(renew)


def complete_url(claimed: ClaimedUrl, result: Json = None) -> bool:
    """Settle a URL as completed. Return False, and change nothing, if its lease has expired."""
    return _settle(claimed, Completed(result))


def fail_url(claimed: ClaimedUrl, error: str) -> bool:
    """Settle a URL as failed; it is tried again while attempts are left. Return False if its lease has expired."""
    failure = Failure(error_type="processing", message=error, retryable=True)
    return _settle(claimed, Failed(failure))


def release_expired_leases() -> int:
    """Take back the URLs of workers that have not renewed in time, and return how many. Workers do it by themselves."""

    async def reap(queue: WorkerQueue) -> int:
        reaped = await queue.reap()
        return reaped.returned + reaped.failed

    return _with_queue(reap)


def get_queue_stats(scraper: str, run_id: str) -> dict[str, int]:
    """Return `pending`, `claimed`, `completed`, `failed` and `remaining` of a run."""
    return ScraperOrchestrator().get_stats(scraper, run_id)


def _settle(claimed: ClaimedUrl, outcome: Outcome) -> bool:
    async def settle(queue: WorkerQueue) -> bool:
        # So that an expired lease is refused even if no one has taken the URL since.
        await queue.reap()
        (accepted,) = await queue.settle([Settlement(claimed.lease, outcome)])
        return accepted

    return _with_queue(settle)


def _with_queue(call: Callable[[WorkerQueue], Awaitable[T]]) -> T:
    async def opened() -> T:
        settings = resolve({})
        queue = WorkerQueue(
            await longshore.open_queue(settings.queue, api_key=settings.api_key), SystemClock(), fingerprint=None
        )
        try:
            return await call(queue)
        finally:
            await queue.tell()
            await queue.close()

    return asyncio.run(opened())
