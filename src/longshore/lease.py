"""A lease: the right of one worker to one job, for a while."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import timedelta

import msgspec

from longshore.errors import UsageError
from longshore.job import Job
from longshore.stored import BIGGEST, check_duration, check_texts, check_whole

DEFAULT_LEASE = timedelta(seconds=300)


class WorkerId(msgspec.Struct, frozen=True):
    """Who holds a lease: a label a person may choose, and an incarnation that nobody can.

    Leases belong to both, so two workers started with one label never share a lease.
    """

    label: str
    incarnation: str

    def __post_init__(self) -> None:
        check_texts((self.label, self.incarnation), "A worker's label")

    @classmethod
    def new(cls, label: str | None = None) -> WorkerId:
        """A fresh incarnation; without a label, one is made of host, process id and chance."""
        chance = secrets.token_hex(4)
        if label is None:
            label = f"{socket.gethostname().partition('.')[0]}_{os.getpid()}_{chance[:6]}"
        return cls(label, f"{label}/{chance}{secrets.token_hex(4)}")

    def __str__(self) -> str:
        return self.label


class Lease(msgspec.Struct, frozen=True):
    """A claimed job in a worker's hands.

    The lease lasts while its worker keeps renewing; `deadline` is when it ends if the worker never does (seconds since
    1970 by the medium's clock; on media without a clock of their own, a guess for people).
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
    """The name of a lease: which job, and which claim of it."""

    job_id: str
    epoch: int


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks for when it claims. An absent filter lets everything through."""

    worker: WorkerId
    limit: int = 1
    lease: timedelta = DEFAULT_LEASE
    run: str | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    without_hosts: frozenset[str] = frozenset()
    """Hosts whose jobs are not wanted now: closed ones, and those of which the worker has enough."""

    def __post_init__(self) -> None:
        lease_seconds(self.lease)
        check_whole(self.limit, 0, BIGGEST, "The number of jobs to claim")
        check_texts(
            (self.run or "", *(self.kinds or ()), *(self.partitions or ()), *self.without_hosts),
            "The runs, kinds, partitions and hosts asked for",
        )

    def matches(self, run: str, kind: str, partition: str) -> bool:
        """Whether a job of this run, kind and partition is wanted, if its host is."""
        return (
            (self.run is None or self.run == run)
            and (self.kinds is None or kind in self.kinds)
            and (self.partitions is None or partition in self.partitions)
        )


def lease_seconds(lease: timedelta) -> float:
    """The length of a lease. Raises `UsageError` for one that would never hold, or longer than anyone lives."""
    check_duration(lease, "The length of a lease")
    if not lease:
        raise UsageError("The length of a lease must be more than nothing, or nobody would ever hold one")
    return lease.total_seconds()
