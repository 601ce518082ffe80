"""The hosts that a job may reach on a private network: those that it, or the submitted jobs of its run, name.

The URL of a follow-on job came from a page. Its host counts only if a job that was submitted from outside names it too:
a crawl of an intranet goes on, and a page of the internet cannot send a worker there.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from longshore.errors import ProcessingError, QueueError
from longshore.job import Job
from longshore.queue import Queue, Selection
from longshore.scrape.http.address_policy import OwnHosts
from longshore.stored import Json
from longshore.url import host_of

LOOKED_AT = 1000
"""Jobs of a run, oldest first, whose hosts count as submitted."""
_KEPT_SECONDS = 60.0
_MOST_URLS = 100

IsSubmitted = Callable[[str, str], Awaitable[bool]]
"""Returns whether the submitted jobs of a run (by its id) name a host."""


def own_hosts(job: Job, is_submitted: IsSubmitted) -> OwnHosts:
    """Return the hosts of a job."""
    hosts = _hosts_in(job)
    return OwnHosts(hosts, None if job.depth == 0 else partial(is_submitted, job.run))


class RunHosts:
    """The hosts that the submitted jobs of each run name. The queue is asked only if a private address was met."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    async def is_submitted(self, run: str, host: str) -> bool:
        """Return whether one of the first jobs of the run, submitted from outside, names this host."""
        known = self._known.get(run)
        if known is None or (host not in known[1] and known[0] < time.monotonic()):
            try:
                jobs = await self._queue.jobs(Selection(run=run), limit=LOOKED_AT)
            except QueueError as error:
                raise ProcessingError(f"The queue does not tell which hosts this run was given: {error}") from error
            hosts = frozenset(host for job in jobs if job.depth == 0 for host in _hosts_in(job))
            known = self._known[run] = time.monotonic() + _KEPT_SECONDS, hosts
        return host in known[1]


def _hosts_in(job: Job) -> frozenset[str]:
    url = job.payload.get("url")
    if isinstance(url, str):
        return frozenset({host_of(url)})
    return frozenset(host_of(text) for text, _ in zip(_urls_in(job.payload), range(_MOST_URLS), strict=False))


def _urls_in(value: Json) -> Iterator[str]:
    match value:
        case str() if value.startswith(("http://", "https://")):
            yield value
        case dict():
            for item in value.values():
                yield from _urls_in(item)
        case list():
            for item in value:
                yield from _urls_in(item)
