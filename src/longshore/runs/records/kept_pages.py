"""The kept pages of jobs: in a folder of this machine, or at the server of the queue."""

from __future__ import annotations

from typing import Protocol

from longshore.extensions.traces import TraceKeeper
from longshore.job import Job
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.page_store import PageStore, exchange_of


class KeptPages(Protocol):
    """The pages that workers kept."""

    async def exchanges(self, job: Job) -> list[Exchange]:
        """Return the exchanges to replay for a job; as `PageStore.exchanges`."""


class PagesInFolder:
    """Pages that workers of this machine kept."""

    def __init__(self, store: PageStore) -> None:
        self._store = store

    async def exchanges(self, job: Job) -> list[Exchange]:
        """See `KeptPages`."""
        return self._store.exchanges(job)


class PagesAtServer:
    """Pages that the queue keeps for its workers."""

    def __init__(self, keeper: TraceKeeper) -> None:
        self._keeper = keeper

    async def exchanges(self, job: Job) -> list[Exchange]:
        """See `KeptPages`."""
        found = []
        for page in await self._keeper.pages(job):
            contents = {
                digest: await self._keeper.content(job, digest)
                for digest in (page.content, page.request_body)
                if digest
            }
            found.append(exchange_of(page, contents.get))
        return [exchange for exchange in found if exchange is not None]
