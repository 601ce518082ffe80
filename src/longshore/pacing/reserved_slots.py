"""The slots of one host that this process has reserved, and its copy of the host's rate in the store.

One exchange with the store writes how the last requests were answered, and reserves the next slots. Another process may
write at the same time; then the exchange reads and starts again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import msgspec

from longshore.clock import Clock
from longshore.pacing.host_rate import (
    AnswerCounts,
    HostRate,
    RatePolicy,
    allows_bursts,
    catch_up,
    interval,
    reserve,
    unknown,
)
from longshore.pacing.rate_learning import fold
from longshore.pacing.store import RateStore

EARLY_SECONDS = 0.0005
"""A slot this near counts as due: no clock wakes a task more exactly."""
_LEAD_SECONDS, _LONG_LEAD_SECONDS = 0.1, 0.25
"""How far ahead slots are reserved, and how many seconds of them in one exchange. The long lead is for hosts that allow
bursts, at a rate below the limit: these slots hardly ever become void, and even a busy machine is in time for them."""
_LATE_SECONDS = 0.25
_LATE_INTERVALS = 3
"""A slot that was missed by the longer of the two is lost: many late requests at once would be a burst."""
_READ_SECONDS = 10.0
"""After this long the shared time is read again."""
_SHARE_SECONDS = 2.0
_SET_BACK_SECONDS = 30.0
"""A first free slot is later by this much than any process reserves: the clock was set back since it was written."""


class ReservedSlots:
    """Reserved `slots`, as instants of the local monotonic clock, and the `host_rate` as last seen in the store."""

    def __init__(self, name: str, store: RateStore, clock: Clock, policy: Callable[[], RatePolicy]) -> None:
        self.slots: deque[float] = deque()
        self.host_rate: HostRate | None = None
        self.share = 1.0
        """The share of the host's slots that this process takes, roughly."""
        self.interval = 1.0
        """Seconds between two slots."""
        self.catch_up = 0.0
        """Seconds by which a slot may be late; 0 if the host allows no bursts."""
        self.lateness = _LATE_SECONDS
        """Seconds after which a missed slot is lost."""
        self.lead = _LEAD_SECONDS
        self._name = name
        self._store = store
        self._clock = clock
        self._policy = policy
        self._version = ""
        self._offset = 0.0
        self._read_at = -math.inf
        self._read_first = True
        self._own_slots, self._all_slots, self._share_at = 0, 0, -math.inf
        self._closed_until = -math.inf
        """Until when an answer closed the host, as an instant of the local clock: the store may not know it yet."""
        self._why = ""

    def close(self, until: float, why: str) -> None:
        """Close the host until this instant of the local clock: drop the reserved slots, those of an exchange too."""
        if until > self._closed_until:
            self._closed_until, self._why = until, why
        self.slots.clear()

    @property
    def why_closed(self) -> str:
        """Why the host is closed, or was closed last."""
        known = self.host_rate
        return self._why if known is None or known.closed_until - self._offset < self._closed_until else known.why

    def closed_for(self) -> float:
        """Return the seconds until the host opens, as far as is known here; 0 if it is open."""
        now = self._clock.monotonic()
        stored = -math.inf if self.host_rate is None else self.host_rate.closed_until - self._offset
        return max(stored - now, self._closed_until - now, 0.0)

    def next_free(self) -> float:
        """Return the instant of the first free slot, as far as is known here."""
        return -math.inf if self.host_rate is None else self.host_rate.next - self._offset

    def open_from(self) -> float:
        """Return the instant from which there are free slots and the host is open, as far as is known here."""
        known = self.host_rate
        stored = -math.inf if known is None else max(known.next, known.closed_until) - self._offset
        return max(stored, self._closed_until)

    def invalidate(self) -> None:
        """Make the next exchange read the store first: the copy here may be out of date."""
        self._read_first = True

    async def exchange(self, answers: AnswerCounts, wanted: int, waiting_since: Callable[[], float | None]) -> None:
        """Write `answers` to the store and reserve `wanted` slots.

        `waiting_since` returns the instant since when the first request waits; None if none waits. If this raises, the
        answers are not written.
        """
        instants = await self._compare_and_swap(answers, wanted, waiting_since)
        # An answer may have closed the host during the exchange.
        self.slots.extend(slot for slot in (each - self._offset for each in instants) if slot >= self._closed_until)
        self._update_share(len(instants))

    async def _compare_and_swap(
        self, answers: AnswerCounts, wanted: int, waiting_since: Callable[[], float | None]
    ) -> list[float]:
        while True:
            if self._read_first or self._clock.monotonic() - self._read_at > _READ_SECONDS:
                await self._read()
            policy, now = self._policy(), self._shared_now()
            known = self.host_rate or unknown(now, policy)
            new = fold(known, answers.shifted(self._offset), now, policy) if answers else known
            instants: list[float] = []
            if wanted and max(new.next, new.closed_until) <= now + self.lead + 2 * EARLY_SECONDS:
                waiting = waiting_since()
                since = now if waiting is None else min(waiting + self._offset, now)
                new, instants = reserve(new, now, wanted, policy, since)
            if new == self.host_rate:
                return instants
            version = await self._store.write(self._name, self._version, new)
            self._read_first = version is None
            if version is not None:
                self._version = version
                self._update(new, policy)
                return instants

    def _shared_now(self) -> float:
        return self._clock.monotonic() + self._offset

    async def _read(self) -> None:
        before = self._clock.monotonic()
        stored = await self._store.read(self._name)
        after = self._clock.monotonic()
        self._offset = stored.now - (before + after) / 2
        self._read_at, self._read_first = after, False
        self._version = stored.version
        if stored.host_rate is not None:
            self._update(_after_a_clock_step(stored.host_rate, stored.now, self._policy()), self._policy())

    def _update(self, host_rate: HostRate, policy: RatePolicy) -> None:
        if self.host_rate is not None and host_rate.voided_at > self.host_rate.voided_at:
            self.slots.clear()
        self.host_rate = host_rate
        self.interval, self.catch_up = interval(host_rate, policy), catch_up(host_rate, policy)
        self.lateness = max(self.catch_up or _LATE_SECONDS, _LATE_INTERVALS * self.interval)
        if host_rate.crawl_delay:
            # By then, other processes know of a slot that was used late, and have not reserved the next one yet.
            self.lateness = min(self.lateness, host_rate.crawl_delay / 2)
        below_limit = allows_bursts(host_rate) and host_rate.rate <= host_rate.ceiling
        self.lead = _LONG_LEAD_SECONDS if below_limit else _LEAD_SECONDS

    def _update_share(self, reserved: int) -> None:
        """Measure which share of all reserved slots belongs to this process."""
        self._own_slots += reserved
        now, known = self._clock.monotonic(), self.host_rate
        if known is None or now - self._share_at < _SHARE_SECONDS:
            return
        everyone = known.slots - self._all_slots
        if self._share_at > -math.inf and everyone > 0:
            self.share = min(self._own_slots / everyone, 1.0)
        self._own_slots, self._all_slots, self._share_at = 0, known.slots, now


def _after_a_clock_step(known: HostRate, now: float, policy: RatePolicy) -> HostRate:
    """Return what the store has; with the next slot soon, if the time of day was set back since it was written."""
    gap = interval(known, policy)
    if known.next <= max(now, known.closed_until) + _SET_BACK_SECONDS + 2 * gap:
        return known
    return msgspec.structs.replace(known, next=now + gap)
