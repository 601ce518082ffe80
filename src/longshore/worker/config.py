"""What a worker is told before it starts."""

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
    """One worker: which queue, which handlers, how much at once, and when to stop."""

    queue_url: str
    handler_file: Path
    worker: WorkerId = msgspec.field(default_factory=WorkerId.new)
    lease: timedelta = DEFAULT_LEASE
    run: str | None = None
    """Only this run's jobs; absent, those of every run."""
    kinds: frozenset[str] | None = None
    """Only these kinds, of those the handler file handles; absent, all it handles."""
    partitions: frozenset[str] | None = None
    """Only jobs of these partitions; absent, those of all and those without one."""
    scope: Scoping | None = None
    """How partitions are shared with other workers; absent, not at all."""
    concurrency: int = 8
    """How many attempts are under way at once."""
    delay: SecondsRange = SecondsRange(0.0, 0.0)
    """The pause between two attempts, drawn anew each time."""
    batch_size: int = 100
    """How many jobs one claim takes at most. Fewer are taken when jobs are slow, so that none lies waiting here."""
    poll_interval: timedelta = timedelta(seconds=10)
    """The longest wait between two looks for work. New work ends a wait at once where the queue can tell."""
    stop: tuple[StopCondition, ...] = ()
    kit: KitConfig = KitConfig()
    """What the tools of its handlers are like."""
    keep_awake: bool = True
    """Keep the machine from going to sleep while the worker runs."""
    log_level: str = "info"
    """What child processes pass on; the worker's own lines are bounded where the log is configured."""

    def __post_init__(self) -> None:
        # Shorter than what a person may set is fine: a program knows what it does. Longer ends in an overflow.
        for name, value, setting in (
            ("lease", self.lease.total_seconds(), "lease_seconds"),
            ("concurrency", self.concurrency, "concurrency"),
            ("batch_size", self.batch_size, "batch_size"),
            ("poll_interval", self.poll_interval.total_seconds(), "poll_interval"),
        ):
            most = TABLE[setting].at_most or math.inf
            if not 0 < value <= most:
                raise UsageError(f"{name} cannot be {value:,}: it is more than 0 and at most {most:,}.")
