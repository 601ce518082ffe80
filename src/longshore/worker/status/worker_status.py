"""The status of a worker at one moment, for the supervisor of its fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from longshore.lease import Lease
from longshore.url import mask_url
from longshore.worker.loop.partition_scope import PartitionScope
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.worker_figures import WorkerFigures

_NAMED, _LONGEST_NAME = 10, 40
_LONGEST = 200
_LONGEST_TROUBLE = 600
_MADE_KEY = 64


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a worker since it started, and its present state. Short enough for one write to a pipe."""

    completed: int = 0
    failed: int = 0
    """Jobs that failed for good."""
    retried: int = 0
    """Attempts that failed and whose job is tried again."""
    under_way: int = 0
    job: str = ""
    """The job that has been under way longest."""
    partitions: tuple[str, ...] = ()
    """The names of the first partitions that it owns now."""
    owned: int | None = None
    """How many partitions it owns; None if partitions are not divided among workers."""
    trouble: str = ""
    """Why there is no progress; empty while there is."""
    proxies_rest: str = ""
    """The hosts for which requests wait because every proxy rests; empty if none wait."""
    figures: WorkerFigures | None = None
    """For metrics and health checks; None from a worker that does not tell them."""


StatusWatcher = Callable[[WorkerStatus], None]
"""Called with the status every second, and once more at the end. It must not raise, and must be quick."""


def worker_status(
    counters: WorkerCounters,
    scope: PartitionScope,
    under_way: Iterable[Lease],
    *,
    trouble: str,
    limited_to: frozenset[str] | None,
    figures: WorkerFigures | None = None,
) -> WorkerStatus:
    """Return the status of a worker. `limited_to` are the partitions of its configuration, None for all."""
    leases: Sequence[Lease] = list(under_way)
    own: frozenset[str] | None = getattr(scope, "own", limited_to)
    return WorkerStatus(
        completed=counters.completed,
        failed=counters.failed,
        retried=counters.retried,
        under_way=len(leases),
        job=_named(leases[0]) if leases else "",
        partitions=tuple(name[:_LONGEST_NAME] for name in sorted(own)[:_NAMED]) if own else (),
        owned=None if own is None else len(own),
        trouble=trouble[:_LONGEST_TROUBLE],
        proxies_rest="" if figures is None else figures.tools.waits.get("proxies", "")[:_LONGEST],
        figures=figures,
    )


def _named(lease: Lease) -> str:
    job = lease.job
    url = job.payload.get("url")
    if isinstance(url, str):
        return mask_url(url)[:_LONGEST]
    # A key that was made from the payload has no meaning for people; its beginning is shown, as in the log.
    key = job.key[:12] if len(job.key) == _MADE_KEY else job.key
    return f"{job.kind} {key}"[:_LONGEST] + (f" ({job.partition[:_LONGEST_NAME]})" if job.partition else "")
