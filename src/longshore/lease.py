"""A lease: the exclusive right of one worker to one job, for a limited time."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from datetime import timedelta

import msgspec

from longshore.errors import UsageError
from longshore.job import Job
from longshore.stored import BIGGEST, check_duration, check_texts, check_whole

DEFAULT_LEASE = timedelta(seconds=300)
_SECRET_BYTES = 12
"""The random part of an incarnation that is never shown: over HTTP, who knows it may act as the worker."""
_INCARNATION = re.compile(rf"/[0-9a-f]{{{8 + 2 * _SECRET_BYTES}}}\Z")


class WorkerId(msgspec.Struct, frozen=True):
    """The holder of a lease: a label that a person may choose, and a random incarnation.

    Leases belong to both together, so two workers started with the same label never share a lease.
    """

    label: str
    incarnation: str

    def __post_init__(self) -> None:
        check_texts((self.label, self.incarnation), "A worker's label")

    @classmethod
    def new(cls, label: str | None = None) -> WorkerId:
        """Return a new incarnation; without `label`, the label is made of host name, process id and random digits."""
        digits = secrets.token_hex(4)
        if label is None:
            label = f"{socket.gethostname().partition('.')[0]}_{os.getpid()}_{digits[:6]}"
        return cls(label, f"{label}/{digits}{secrets.token_hex(_SECRET_BYTES)}")

    @property
    def public_incarnation(self) -> str:
        """The part of the incarnation that a server shows to others: enough to tell workers apart, not to act as one.

        It is a prefix of an incarnation made by `new`, so that workers sort in the same order by either.
        """
        if _INCARNATION.search(self.incarnation):
            return self.incarnation[: -2 * _SECRET_BYTES]
        return hashlib.sha256(self.incarnation.encode()).hexdigest()[:8]

    def __str__(self) -> str:
        return self.label


class Lease(msgspec.Struct, frozen=True):
    """A claimed job and the worker that holds it.

    The lease lasts while its worker keeps renewing; `deadline` is when it ends without a renewal (seconds since 1970 by
    the medium's clock; on media without their own clock, an estimate for display).
    """

    job: Job
    worker: WorkerId
    deadline: float

    @property
    def epoch(self) -> int:
        return self.job.epoch

    @property
    def held(self) -> Held:
        return Held(self.job.id, self.job.epoch)


class Held(msgspec.Struct, frozen=True):
    """The identity of a lease: the job, and the epoch of its claim."""

    job_id: str
    epoch: int


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a worker that claims jobs. A filter that is None matches everything."""

    worker: WorkerId
    limit: int = 1
    lease: timedelta = DEFAULT_LEASE
    run: str | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    without_hosts: frozenset[str] = frozenset()
    """Hosts whose jobs are not wanted now: hosts in cooldown, and hosts of which the worker holds enough jobs."""

    def __post_init__(self) -> None:
        lease_seconds(self.lease)
        check_whole(self.limit, 0, BIGGEST, "The number of jobs to claim")
        check_texts(
            (self.run or "", *(self.kinds or ()), *(self.partitions or ()), *self.without_hosts),
            "The requested runs, kinds, partitions and hosts",
        )

    def matches(self, run: str, kind: str, partition: str) -> bool:
        """Return whether the filters match this run, kind and partition. Hosts are not checked."""
        return (
            (self.run is None or self.run == run)
            and (self.kinds is None or kind in self.kinds)
            and (self.partitions is None or partition in self.partitions)
        )


def lease_seconds(lease: timedelta) -> float:
    """Return the length of a lease in seconds. Raises `UsageError` if it is 0 or more than 100 years."""
    check_duration(lease, "The length of a lease")
    if not lease:
        raise UsageError("The length of a lease must be more than 0 seconds, or it would expire at once")
    return lease.total_seconds()
