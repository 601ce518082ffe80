"""How a worker stands at one moment, for whoever watches it: the supervisor of its fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from longshore.lease import Lease
from longshore.url import mask_url
from longshore.worker.loop.partition_scope import PartitionScope
from longshore.worker.status.counters import WorkerCounters

_NAMED, _LONGEST_NAME = 10, 40
_LONGEST = 200
_LONGEST_TROUBLE = 600
_MADE_KEY = 64


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's figures since it started, and what it does now. Short: it fits into one write to a pipe."""

    completed: int = 0
    failed: int = 0
    """Jobs that failed for good."""
    retried: int = 0
    """Attempts that failed and whose job is tried again."""
    under_way: int = 0
    job: str = ""
    """The job that has been under way longest."""
    partitions: tuple[str, ...] = ()
    """The first of the partitions that are its own now."""
    owned: int | None = None
    """How many partitions are its own; None where partitions are not shared out."""
    trouble: str = ""
    """Why nothing goes on; empty while it does."""
    proxies_rest: str = ""
    """Where requests wait because every proxy rests; empty while they do not."""


StatusWatcher = Callable[[WorkerStatus], None]
"""Told every second, and once more at the end. It must not raise, and not take long."""


def worker_status(
    tally: WorkerCounters,
    scope: PartitionScope,
    under_way: Iterable[Lease],
    *,
    trouble: str,
    proxies_rest: str = "",
    limited_to: frozenset[str] | None,
) -> WorkerStatus:
    """What there is to say of a worker with these figures, which may have been limited to certain partitions."""
    leases: Sequence[Lease] = list(under_way)
    own: frozenset[str] | None = getattr(scope, "own", limited_to)
    return WorkerStatus(
        completed=tally.completed,
        failed=tally.failed,
        retried=tally.retried,
        under_way=len(leases),
        job=_named(leases[0]) if leases else "",
        partitions=tuple(name[:_LONGEST_NAME] for name in sorted(own)[:_NAMED]) if own else (),
        owned=None if own is None else len(own),
        trouble=trouble[:_LONGEST_TROUBLE],
        proxies_rest=proxies_rest[:_LONGEST],
    )


def _named(lease: Lease) -> str:
    job = lease.job
    url = job.payload.get("url")
    if isinstance(url, str):
        return mask_url(url)[:_LONGEST]
    # A key that was made from the payload tells nobody anything; its beginning is what the log shows too.
    key = job.key[:12] if len(job.key) == _MADE_KEY else job.key
    return f"{job.kind} {key}"[:_LONGEST] + (f" ({job.partition[:_LONGEST_NAME]})" if job.partition else "")
