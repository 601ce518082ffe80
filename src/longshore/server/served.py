"""The parts that every route of the server works with: the queue, the keys, the clock, and the bounds of a request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from importlib.metadata import version

from longshore.clock import Clock
from longshore.media.http.wire import Capabilities, Limits
from longshore.queue import Queue
from longshore.server.auth.keys import KeyStore
from longshore.server.auth.leases import LeaseTokens
from longshore.wrappers.worker_queue import WorkerQueue

LIMITS = Limits(body_bytes=64 * 1024 * 1024, claim=10_000, page=1000, wait_seconds=25.0, lease_seconds=30 * 24 * 3600.0)


@dataclass(frozen=True)
class Served:
    """One queue, as a server offers it."""

    queue: Queue
    """The queue as it is, for everything that neither claims nor settles."""
    working: WorkerQueue
    """The same queue for claims and settlements: paused runs and the limits of runs hold for every worker."""
    keys: KeyStore
    tokens: LeaseTokens
    clock: Clock
    limits: Limits = LIMITS
    read_only: bool = False
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server begins to stop: long polls end."""

    @classmethod
    def of(cls, queue: Queue, keys: KeyStore, clock: Clock, *, read_only: bool = False) -> Served:
        """Return the served queue. The keys must have been made before."""
        tokens = LeaseTokens(keys.signing_secret)
        return cls(queue, WorkerQueue(queue, clock), keys, tokens, clock, read_only=read_only)

    @property
    def capabilities(self) -> Capabilities:
        """The description of this server for its clients."""
        return Capabilities(
            version=version("longshore"), read_only=self.read_only, limits=self.limits, traits=self.queue.traits
        )
