"""The parts that every route of the server works with: the queue, the keys, the clock, and the bounds of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version

import msgspec

from longshore.clock import Clock
from longshore.extensions.kind_schemas import KINDS
from longshore.job import NewJob
from longshore.media.http.wire import Capabilities, Limits
from longshore.queue import Queue, Submitted
from longshore.server.auth.keys import KeyStore
from longshore.server.auth.leases import LeaseTokens
from longshore.server.auth.sessions import Sessions
from longshore.server.bulk_actions import BulkActions
from longshore.server.claim_answers import ClaimAnswers
from longshore.server.kind_checks import KindChecks
from longshore.server.state_changes import StateChanges
from longshore.server.traces.trace_store import TraceStore
from longshore.server.waiting_room import WaitingRoom
from longshore.wrappers.growth_limits import LIMITS as LIMITS_OF_RUNS
from longshore.wrappers.paused import PAUSED
from longshore.wrappers.worker_queue import WorkerQueue

LIMITS = Limits(body_bytes=64 * 1024 * 1024, claim=10_000, page=1000, wait_seconds=25.0, lease_seconds=30 * 24 * 3600.0)


@dataclass(frozen=True)
class Served:
    """One queue, as a server offers it."""

    queue: Queue
    """The queue for everything that neither claims nor settles. A change that is made here holds for the next claim."""
    working: WorkerQueue
    """The same queue for claims and settlements: paused runs and the limits of runs hold for every worker."""
    keys: KeyStore
    tokens: LeaseTokens
    sessions: Sessions
    clock: Clock
    traces: TraceStore
    """Keeps the records, pages and failure bundles of workers."""
    bulk_actions: BulkActions
    kinds: KindChecks
    limits: Limits = LIMITS
    read_only: bool = False
    where: str = ""
    """The URL of the queue, for people, without secrets."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server begins to stop: long polls end."""

    @classmethod
    def of(
        cls,
        queue: Queue,
        keys: KeyStore,
        clock: Clock,
        *,
        traces: TraceStore | None = None,
        read_only: bool = False,
        where: str = "",
    ) -> Served:
        """Return the served queue. The keys must have been made before; without `traces`, they are kept beside them."""
        tokens = LeaseTokens(keys.signing_secret)
        sessions = Sessions(keys.path.with_name("sessions.json"), keys, clock)
        kept = traces or TraceStore(keys.path.parent)
        working, kinds = WorkerQueue(queue, clock, fingerprint=None), KindChecks(queue, clock)
        limits = working.limits
        changed = {PAUSED: working.look_again, LIMITS_OF_RUNS: limits.look_again, KINDS: kinds.look_again}
        queue = StateChanges(queue, changed, pruned=limits.look_again)
        return cls(
            queue=queue,
            working=working,
            keys=keys,
            tokens=tokens,
            sessions=sessions,
            clock=clock,
            traces=kept,
            bulk_actions=BulkActions(queue, clock, kept, read_only=read_only),
            kinds=kinds,
            read_only=read_only,
            where=where,
        )

    @cached_property
    def waiting(self) -> WaitingRoom:
        """The place of long polls."""
        return WaitingRoom(self.working)

    @cached_property
    def claim_answers(self) -> ClaimAnswers:
        """The answers to the latest claims."""
        return ClaimAnswers()

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        """Submit jobs, and let long polls look for them at once."""
        submitted = await self.queue.submit(jobs)
        if submitted.new:
            self.waiting.hint(jobs)
        return submitted

    @cached_property
    def capabilities(self) -> Capabilities:
        """The description of this server for its clients."""
        return Capabilities(
            version=version("longshore"),
            read_only=self.read_only,
            limits=self.limits,
            traits=msgspec.structs.replace(self.queue.traits, keeps_traces=True),
        )
