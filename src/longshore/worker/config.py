"""What a worker is told before it starts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from longshore.lease import DEFAULT_LEASE, WorkerId
from longshore.settings import Span
from longshore.worker.scope import Scoping
from longshore.worker.stop import StopCondition


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
    delay: Span = Span(0.0, 0.0)
    """The pause between two attempts, drawn anew each time."""
    batch_size: int = 100
    """How many jobs one claim takes at most. Fewer are taken when jobs are slow, so that none lies waiting here."""
    poll_interval: timedelta = timedelta(seconds=10)
    """The longest wait between two looks for work. New work ends a wait at once where the queue can tell."""
    stop: tuple[StopCondition, ...] = ()
    keep_awake: bool = True
    """Keep the machine from going to sleep while the worker runs."""
    log_level: str = "info"
    """What child processes pass on; the worker's own lines are bounded where the log is configured."""
