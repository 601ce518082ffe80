"""The configuration of a worker."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path

import msgspec

from longshore.errors import UsageError
from longshore.lease import DEFAULT_LEASE, WorkerId
from longshore.settings import TABLE, SecondsRange
from longshore.worker.kit.config import KitConfig
from longshore.worker.loop.partition_scope import Scoping
from longshore.worker.loop.stop_conditions import StopCondition


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one worker: which queue, which handlers, how many jobs at once, when to stop."""

    queue_url: str
    handler_file: Path
    published: str = ""
    """The fingerprint of the published version that the handler file belongs to; empty for a file of the user."""
    worker: WorkerId = msgspec.field(default_factory=WorkerId.new)
    lease: timedelta = DEFAULT_LEASE
    run: str | None = None
    """Claim only jobs of this run; None for every run."""
    kinds: frozenset[str] | None = None
    """Claim only jobs of these kinds; None for all kinds that the handler file handles."""
    partitions: frozenset[str] | None = None
    """Claim only jobs of these partitions; None for all jobs, with or without a partition."""
    scope: Scoping | None = None
    """How partitions are divided among workers; None if they are not."""
    concurrency: int = 8
    """The most attempts under way at once."""
    delay: SecondsRange = SecondsRange(0.0, 0.0)
    """The pause between two attempts, drawn each time."""
    batch_size: int = 100
    """The most jobs in one claim. A worker with slow jobs claims fewer, so that none waits here for an executor."""
    poll_interval: timedelta = timedelta(seconds=10)
    """The longest wait between two looks for work. New work ends a wait at once if the queue can notify."""
    stop: tuple[StopCondition, ...] = ()
    kit: KitConfig = KitConfig()
    """The configuration of its handlers' tools."""
    keep_awake: bool = True
    """Keep the machine from going to sleep while the worker runs."""
    log_level: str = "info"
    """The lowest log level of child processes. That of the worker itself is set with its log."""

    def __post_init__(self) -> None:
        # A program may go below the smallest value of a setting, but not above the largest: that ends in an overflow.
        for name, value, setting in (
            ("lease", self.lease.total_seconds(), "lease_seconds"),
            ("concurrency", self.concurrency, "concurrency"),
            ("batch_size", self.batch_size, "batch_size"),
            ("poll_interval", self.poll_interval.total_seconds(), "poll_interval"),
        ):
            most = TABLE[setting].at_most or math.inf
            if not 0 < value <= most:
                raise UsageError(f"{name} cannot be {value:,}: it is more than 0 and at most {most:,}.")
