"""The claimer: fetches work ahead of need, waits when there is none, and sees to the stop conditions.

How much it claims ahead follows from how fast jobs end here: what this worker will begin within the next half second
(or within two claims, where claiming is slow), and never more than a batch. A worker with slow jobs claims only what it
can begin now, and leaves the rest to others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueError, QueueUnavailableError
from longshore.lease import Lease, Want
from longshore.pacing.claim_filter import LOOK_SECONDS, ClaimFilter
from longshore.queue import Count
from longshore.system.backoff import Backoff
from longshore.system.first_of import first_of
from longshore.worker.config import WorkerConfig
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.job_spacing import JobSpacing
from longshore.worker.loop.partition_scope import Everywhere, Partitions, PartitionScope
from longshore.worker.loop.reaper import Reaper
from longshore.worker.loop.settler import Settler
from longshore.worker.loop.start_gate import Gatekeeper
from longshore.worker.loop.stop_conditions import MaxIdle, MaxWork, RunFinished, Snapshot, StopCondition
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.log_reporter import LogReporter
from longshore.wrappers.paused import PausableQueue

T = TypeVar("T")

_AHEAD_SECONDS = 0.5
_FIRST_WAIT_SHARE = 0.1
"""The first wait for work, as a share of the longest: a few looks that find nothing take a while, as people expect."""
_CHECK_SECONDS = 0.25
"""How often the stop conditions are asked while there is work."""
_RUN_LOOK_SECONDS = (0.5, 2.0)
"""How often a waiting worker asks whether its run is finished: at first, and when it has waited long."""
_LOOK_SECONDS = 5.0
"""How often a waiting worker asks the stop conditions."""


class ClaimEvents(Protocol):
    """Who wants to know how the search for work goes."""

    def unavailable(self, doing: str, error: QueueError, wait: float) -> None:
        """The queue is out of reach; it is tried again after `wait` seconds."""

    def available(self) -> None:
        """The queue answered."""

    def unwanted(self, leases: Sequence[Lease]) -> None:
        """A claim was answered after it was time to stop or to pause: these are to be given back."""

    def lost(self, leases: Sequence[Lease]) -> None:
        """These leases are gone, and the attempts under way are to be ended."""

    def stop(self, reason: str) -> None:
        """A stop condition holds."""


class Claimer:
    """The one who fetches work."""

    def __init__(
        self,
        config: WorkerConfig,
        kinds: frozenset[str],
        conditions: Sequence[StopCondition],
        queue: PausableQueue,
        tempo: JobSpacing,
        hand: HeldLeases,
        settler: Settler,
        tally: WorkerCounters,
        clock: Clock,
        reaper: Reaper,
        gatekeeper: Gatekeeper,
        politeness: ClaimFilter,
        reporter: LogReporter,
        listener: ClaimEvents,
    ) -> None:
        self._config = config
        self._kinds = kinds
        self._conditions = conditions
        self._queue = queue
        self._tempo = tempo
        self._hand = hand
        self._settler = settler
        self._tally = tally
        self._clock = clock
        self._reaper = reaper
        self._gatekeeper = gatekeeper
        self._politeness = politeness
        self._reporter = reporter
        self._listener = listener
        self._want = Want(
            worker=config.worker, lease=config.lease, run=config.run, kinds=kinds, partitions=config.partitions
        )
        self.scope: PartitionScope = (
            config.scope.join(self._want, queue, clock, self._partitions_in_hand)
            if config.scope is not None
            else Everywhere(config.partitions)
        )
        """Where it looks."""
        self._started = self._idle_since = self._other_kinds_since = clock.monotonic()
        self._other_kinds = 0
        self._empty_polls = 0
        self._hinted = False
        self._checked_at = self._asked_at = float("-inf")
        self._claim_began = self._claim_seconds = 0.0
        self._attempt_seconds: float | None = None
        longest = config.poll_interval.total_seconds()
        self._waits = Backoff(_FIRST_WAIT_SHARE * longest, longest)
        self._troubles = Backoff(0.5, 30.0)
        self._hints = Backoff(0.005, longest)
        watched = [condition for condition in conditions if isinstance(condition, RunFinished)]
        self._watches_run = bool(watched)
        self._run = config.run or (watched[0].run if watched else None)
        self.stopping = asyncio.Event()
        """Set from outside: claim nothing more."""
        self.quiet = asyncio.Event()
        """Set by `rest`, when nothing is in hand any more."""

    def learn(self, seconds: float) -> None:
        """Attempts take this long lately."""
        known = self._attempt_seconds
        self._attempt_seconds = seconds if known is None else known + 0.3 * (seconds - known)

    def rest(self) -> None:
        """The last thing in hand has been settled, or lost. Idleness begins here."""
        self._idle_since = self._clock.monotonic()
        self._asked_at = float("-inf")
        self.quiet.set()

    async def run(self) -> None:
        """Fetch work until told to stop."""
        self._reporter.looking()
        while not self.stopping.is_set():
            self._hand.need.clear()
            if self._conditions_say_stop():
                return
            if not self._gatekeeper.open.is_set():
                if await self._shut_out():
                    return
                continue
            limit = self._room()
            if limit <= 0:
                if await self._finished_in_a_pause():
                    return
                await self._sooner(self._hand.need.wait(), _CHECK_SECONDS)
                continue
            leases = await self._claim(limit)
            if leases is None:
                continue
            self._tally.claimed += len(leases)
            if self.stopping.is_set():
                self._listener.unwanted(leases)
                return
            if not self._gatekeeper.open.is_set():
                self._listener.unwanted(leases)
                continue
            if leases:
                # What was taken from us and is ours anew before we noticed: the attempt under way counts for nothing.
                if anew := [held for lease in leases if (held := self._hand.held.get(lease.job.id)) is not None]:
                    self._listener.lost(anew)
                self._reporter.hosts_closed(frozenset())
                self._waits.reset()
                self._hints.reset()
                self._empty_polls = 0
                self._hinted = False
                self.quiet.clear()
                self._hand.take_in(leases, self._claim_began)
                self._reporter.claimed(leases)
                await asyncio.sleep(0)  # the runners begin before the next claim is made
                continue
            if self._hinted:
                await self._lost_race()
            if self._in_hand:
                await self._wait_beside_work()
            elif await self._idle():
                return

    @property
    def _in_hand(self) -> int:
        return len(self._hand.held) + self._settler.busy

    def _partitions_in_hand(self) -> frozenset[str]:
        outstanding = [settlement.lease for settlement in self._settler.outstanding]
        return frozenset(lease.job.partition for lease in [*self._hand.held.values(), *outstanding])

    def snapshot(self) -> Snapshot:
        """The worker as its stop conditions see it."""
        now = self._clock.monotonic()
        in_hand = self._in_hand
        return Snapshot(
            claimed=self._tally.claimed,
            completed=self._tally.completed,
            failed=self._tally.failed + self._tally.retried,
            in_hand=in_hand,
            errors_in_a_row=self._tally.errors_in_a_row,
            empty_polls=self._empty_polls,
            idle=timedelta(seconds=0.0 if in_hand else now - self._idle_since),
            uptime=timedelta(seconds=now - self._started),
        )

    def _conditions_say_stop(self) -> bool:
        now = self._clock.monotonic()
        if now - self._checked_at < _CHECK_SECONDS and self._tally.ended != self._target:
            return False
        self._checked_at = now
        return self._check(self.snapshot())

    @property
    def _target(self) -> int | None:
        return min((c.limit for c in self._conditions if isinstance(c, MaxWork)), default=None)

    def _check(self, snapshot: Snapshot) -> bool:
        for condition in self._conditions:
            reason = condition.check(snapshot)
            if reason is not None:
                self._listener.stop(reason)
                return True
        return False

    def _room(self) -> int:
        """How many jobs to claim now."""
        hand, config, concurrency = self._hand, self._config, self._tempo.concurrency
        ahead = self._ahead()
        hand.low = ahead // 2
        # Between two pauses one runner at a time asks for a job; the others' turn has not come.
        free = (hand.waiting if self._tempo.pauses else concurrency - hand.under_way) - len(hand.ready)
        if free <= 0 and (len(hand.ready) > hand.low or ahead == 0):
            return 0
        # What lies ready may be somebody else's by now; more of it would wait as well.
        if hand.ready and hand.unsure:
            return 0
        # Outcomes that cannot be written pile up in memory; no more work until they are.
        if self._settler.busy > 2 * (config.batch_size + concurrency):
            return 0
        room = min(config.batch_size, free + ahead)
        for condition in self._conditions:
            if isinstance(condition, MaxWork):
                room = min(room, condition.room(self.snapshot()))
        return room

    def _ahead(self) -> int:
        seconds = self._attempt_seconds
        if seconds is None or self._tempo.pauses:
            return 0
        horizon = max(_AHEAD_SECONDS, 2 * self._claim_seconds)
        return min(self._config.batch_size, int(self._tempo.concurrency * horizon / max(seconds, 1e-6)))

    async def _claim(self, limit: int) -> list[Lease] | None:
        """What was claimed; None where the queue is out of reach, after a wait."""
        self._want = msgspec.structs.replace(self._want, without_hosts=self._politeness.without())

        def take(partitions: Partitions) -> Awaitable[list[Lease]]:
            return self._queue.claim(msgspec.structs.replace(self._want, limit=limit, partitions=partitions))

        self._claim_began = self._clock.monotonic()
        self._hand.claiming = True
        try:
            leases = await self.scope.claim(take)
        except QueueUnavailableError as error:
            wait = self._troubles.next()
            self._listener.unavailable("looking for work", error, wait)
            await self._sooner(self._clock.sleep(wait), None)
            return None
        finally:
            self._hand.claiming = False
        self._troubles.reset()
        self._listener.available()
        self._claim_seconds += 0.3 * (self._clock.monotonic() - self._claim_began - self._claim_seconds)
        return leases

    async def _shut_out(self) -> bool:
        """Nothing may begin here now: wait until it may. True when it is time to stop, as when others end the run."""
        way_is_free = self._gatekeeper.open
        while not self.stopping.is_set():
            await self._sooner(self._clock.sleep(_LOOK_SECONDS), None, way_is_free.wait())
            # Whoever may not look for work cannot tell that there is none.
            self._idle_since = self._clock.monotonic()
            if way_is_free.is_set():
                return False
            snapshot = await self._full_snapshot()
            if snapshot is not None and self._check(msgspec.structs.replace(snapshot, empty_polls=0)):
                return True
        return False

    async def _finished_in_a_pause(self) -> bool:
        """Whether the run is finished while this worker pauses: after the last job nobody waits for a pause to end."""
        now = self._clock.monotonic()
        if (
            not (self._tempo.pauses and self._watches_run)
            or self._in_hand
            or now - self._asked_at < _RUN_LOOK_SECONDS[1]
        ):
            return False
        self._asked_at = now
        snapshot = await self._full_snapshot()
        return snapshot is not None and self._check(msgspec.structs.replace(snapshot, empty_polls=0))

    @property
    def _passes_over(self) -> bool:
        """Whether the last claim left hosts out."""
        return bool(self._want.without_hosts)

    async def _lost_race(self) -> None:
        """The queue said that there was work, and there was none: another worker was faster."""
        self._tally.lost_races += 1
        self._reporter.lost_race()
        # Step back a little, the more often it happens the further, or all workers run at every job together.
        await self._sooner(self._clock.sleep(self._hints.next()), None)

    async def _wait_beside_work(self) -> None:
        """Nothing more to claim, and work under way: wait for more, or for the end of what is in hand."""
        wait = timedelta(seconds=min(self._waits.next(), _LOOK_SECONDS if not self._passes_over else LOOK_SECONDS))
        await self._reaper.reap()
        others = [self.quiet.wait(), self.scope.changed()]
        if self._passes_over:
            # Whatever ends may make room for another of its host.
            others.append(self._hand.need.wait())
        self._hinted = await self._sooner(self._queue_wait(wait), None, *others) is True

    async def _idle(self) -> bool:
        """Nothing to claim and nothing in hand: wait. True when it is time to stop."""
        if await self._reaper.reap():
            return False
        if self._passes_over:
            # There may be work, of hosts that must not be asked now. That is no reason to stop.
            self._idle_since = self._clock.monotonic()
        elif not self._hinted:
            self._empty_polls += 1
        snapshot = await self._full_snapshot()
        if snapshot is None:
            return False
        if self._check(snapshot):
            return True
        wait = min(self._waits.next(), LOOK_SECONDS) if self._passes_over else self._waits.next()
        for condition in self._conditions:
            if isinstance(condition, MaxIdle):
                wait = min(wait, (condition.limit - snapshot.idle).total_seconds())
        if self._passes_over:
            self._reporter.hosts_closed(self._want.without_hosts)
        else:
            self._reporter.no_work(snapshot, wait)
        until = self._clock.monotonic() + wait
        while (left := until - self._clock.monotonic()) > 0 and not self.stopping.is_set():
            piece = min(left, self._look_seconds())
            waiting = self._queue_wait(timedelta(seconds=piece))
            self._hinted = await self._sooner(waiting, None, self.scope.changed()) is True
            if self._hinted:
                break
            snapshot = await self._full_snapshot()
            # The empty polls were judged when they were counted.
            if snapshot is not None and self._check(msgspec.structs.replace(snapshot, empty_polls=0)):
                return True
        return False

    def _look_seconds(self) -> float:
        """How long to wait in one piece: whoever has waited a minute can learn a second later that it was in vain."""
        if not self._watches_run:
            return _LOOK_SECONDS
        soonest, latest = _RUN_LOOK_SECONDS
        return min(latest, max(soonest, 0.1 * (self._clock.monotonic() - self._idle_since)))

    async def _queue_wait(self, wait: timedelta) -> bool:
        reach = self.scope.reach
        if reach is not None and not reach:
            await self._clock.sleep(wait.total_seconds())
            return False
        try:
            return await self._queue.wait(msgspec.structs.replace(self._want, partitions=reach), wait)
        except QueueUnavailableError as error:
            pause = self._troubles.next()
            self._listener.unavailable("waiting for work", error, pause)
            await self._clock.sleep(pause)
            return False

    async def _full_snapshot(self) -> Snapshot | None:
        """With what remains of the run, where a condition asks for it; None where the queue is out of reach."""
        snapshot = self.snapshot()
        if not self._watches_run:
            return snapshot
        try:
            counts = await self._queue.stats(self._run)
        except QueueUnavailableError as error:
            wait = self._troubles.next()
            self._listener.unavailable("asking whether the run is finished", error, wait)
            await self._sooner(self._clock.sleep(wait), None)
            return None
        remaining, foreign = self._sorted_by_reach(counts)
        return msgspec.structs.replace(snapshot, remaining=remaining, left_to_others=foreign)

    def _sorted_by_reach(self, counts: Sequence[Count]) -> tuple[int, int]:
        """What may still come to this worker, and what is pending for others."""
        partitions = self._config.partitions
        remaining = foreign = other_kinds = 0
        for count in counts:
            if partitions is not None and count.partition not in partitions:
                remaining += count.claimed
                foreign += count.pending
            elif count.kind not in self._kinds:
                remaining += count.claimed
                other_kinds += count.pending
            else:
                remaining += count.remaining
        # Jobs of other kinds may bring follow-on jobs for us, if someone works on them. If nobody has touched them for
        # a lease length, nobody is there to.
        now = self._clock.monotonic()
        if remaining or other_kinds != self._other_kinds:
            self._other_kinds, self._other_kinds_since = other_kinds, now
        if now - self._other_kinds_since < self._config.lease.total_seconds():
            remaining += other_kinds
        return remaining, foreign + other_kinds

    async def _sooner(self, awaited: Awaitable[T], timeout: float | None, *others: Awaitable[Any]) -> T | None:
        """Return the result of `awaited`, or None if the worker stops, `timeout` is over, or one of `others` ends."""
        return await first_of(awaited, self.stopping.wait(), *others, timeout=timeout)
