"""The gate of one host in this process: requests wait in line, and each passes at a slot that is reserved for it.

A dispatcher task makes exchanges with the store: one write adds the last answers and reserves the next slots, about a
tenth of a second ahead. So a request seldom waits for the store, and after a refusal few slots are left over from the
rate that was too high.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError, PassingQueueError
from longshore.pacing.contract import HostClosedError, refusal_in_words
from longshore.pacing.host_rate import REFUSALS, AnswerCounts, HostRate, RatePolicy
from longshore.pacing.reserved_slots import EARLY_SECONDS, ReservedSlots
from longshore.pacing.store import RateStore, entry_name

_STOCK_SECONDS = 0.2
"""If requests do not wait for the rate, reserve slots for this long: event loops can be late, and disks slow."""
_MIN_SPACING = 0.9
"""The smallest distance of two requests of this process, as a share of the interval, if the host allows no bursts."""
_FLUSH_SECONDS = 1.0
"""Seconds after the last request until its answers are written, even if no slot is wanted."""
_ANNOUNCE_SECONDS = 2.0
"""A closure that is longer than this is announced to all, so that workers do not even claim the host's jobs."""
_RETRY_SECONDS = 1.0
"""How long to wait after the store could not be reached."""

log = structlog.get_logger()


class _Waiter:
    __slots__ = ("deadline", "may_go", "since")

    def __init__(self, since: float, deadline: float) -> None:
        self.since = since
        self.deadline = deadline
        self.may_go: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class HostGate:
    """Admits the requests of this process to one host with one identity. All calls are made in one event loop."""

    def __init__(
        self, host: str, identity: str, store: RateStore, clock: Clock, policy: Callable[[], RatePolicy]
    ) -> None:
        """`identity` is the proxy in use, or an empty string."""
        self.host = host
        # A host that refuses one proxy may be open to the others, so only a closure without a proxy is for all.
        self._announces = not identity
        self._store = store
        self._clock = clock
        self._reserved = ReservedSlots(entry_name(host, identity), store, clock, policy)
        self._waiters: deque[_Waiter] = deque()
        self._answers = AnswerCounts()
        self._write_now = False
        """Whether a refusal must be written at once."""
        self._asked_for_more = False
        """Whether `try_pass` has woken the dispatcher to reserve more slots."""
        self._last_use = -math.inf
        self._used_since_exchange = 0
        self._window_start, self._used_in_window = -math.inf, 0
        self._usual_use = 0
        """Slots that were used in `_STOCK_SECONDS`, as measured last."""
        self._active_at = -math.inf
        self._not_before = -math.inf
        """No exchange before this instant, because the store could not be reached."""
        self._wake = asyncio.Event()
        self._dispatcher: asyncio.Task[None] | None = None

    @property
    def host_rate(self) -> HostRate | None:
        """The rate of the host as last seen; None before the first read."""
        return self._reserved.host_rate

    @property
    def own_rate(self) -> float | None:
        """The part of the host's rate that this process uses, in requests a second; None before the first read."""
        known = self._reserved.host_rate
        return None if known is None else known.rate * self._reserved.share

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost if the gate were dropped."""
        return self._dispatcher is None and not self._answers

    def closed_for(self) -> float:
        """Return the seconds until the host opens, as far as is known here; 0 if it is open."""
        return self._reserved.closed_for()

    # Requests

    def try_pass(self) -> bool:
        """Use a slot and return True if one is due now and no request waits. Costs next to nothing."""
        slots = self._reserved.slots
        if not slots or self._waiters:
            return False
        now = self._clock.monotonic()
        if slots[0] > now + EARLY_SECONDS or not self._has_usable_slot(now):
            return False
        self._use_slot(now)
        if (
            not self._asked_for_more
            and (not slots or slots[-1] < now + self._reserved.lead / 2)
            and self._runs_low()
            and self._wanted_slots()
        ):
            self._asked_for_more = True
            self._wake_dispatcher()
        return True

    async def wait(self, patience: float) -> None:
        """Wait in line for a slot. Raise `HostClosedError` if that takes longer than `patience` seconds."""
        now = self._clock.monotonic()
        self._raise_if_too_long(now, patience)
        waiter = _Waiter(now, now + patience)
        self._waiters.append(waiter)
        self._active_at = now
        self._wake_dispatcher()
        try:
            await waiter.may_go
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def answered(self, status: int | None, retry_after: float | None, seconds: float) -> None:
        """Count an answer. The next exchange writes it; after a refusal that happens at once."""
        if status is None or (status >= 500 and status not in REFUSALS and retry_after is None):
            return  # it says nothing about the rate
        now = self._clock.monotonic()
        if status not in REFUSALS and retry_after is None:
            self._answers.pass_one(now - seconds, seconds)
            # All processes wait for the answer that shows that a host accepts again.
            self._write_now |= self.host_rate is not None and self.host_rate.gap > 0
            if self._dispatcher is None or self._write_now:
                self._wake_dispatcher()
            return
        self._answers.refuse_one(status, now - seconds, 0.0 if retry_after is None else now + retry_after)
        if retry_after is not None:
            # Not only after the exchange: slots that are reserved already would be used.
            self._reserved.close(now + retry_after, f"it answered {refusal_in_words(status)} with Retry-After")
        self._write_now = True
        self._wake_dispatcher()

    def crawl_delay(self, seconds: float) -> None:
        """Set the seconds between two requests that robots.txt asks for."""
        if self.host_rate is None or self.host_rate.crawl_delay != seconds:
            self._answers.crawl_delay = seconds
            self._answers.late_use = max(self._last_use, 0.0)
            self._reserved.slots.clear()
            self._wake_dispatcher()

    async def close(self) -> None:
        """Write the answers that are not written yet, and stop. Requests that still wait fail."""
        dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            dispatcher.cancel()
            await asyncio.gather(dispatcher, return_exceptions=True)
        self._fail_waiters(HostClosedError(self.host, 0.0, "this worker is ending"))
        if self._answers:
            try:
                await self._exchange(0)
            except LongshoreError as error:
                log.warning("The last answers of a host could not be stored", host=self.host, error=str(error))

    def _raise_if_too_long(self, now: float, patience: float) -> None:
        closed = self.closed_for()
        if closed > patience:
            raise HostClosedError(self.host, closed, self._reserved.why_closed)
        if self.host_rate is None:
            return
        wait = max(self._reserved.next_free() - now, 0.0) if not self._reserved.slots else 0.0
        wait += len(self._waiters) * self._reserved.interval
        if wait > patience:
            raise HostClosedError(self.host, wait, self._busy())

    def _busy(self) -> str:
        return f"it is asked once every {self._reserved.interval:.3g} s, and {len(self._waiters)} requests are waiting"

    # Use of slots

    def _has_usable_slot(self, now: float) -> bool:
        """Drop missed slots. Return whether one is left, and the last use is long enough ago for the next one."""
        reserved = self._reserved
        slots, lateness = reserved.slots, reserved.lateness
        while slots and slots[0] < now - lateness:
            slots.popleft()
        return bool(slots) and now >= self._not_closer_than()

    def _not_closer_than(self) -> float:
        """Return the instant before which the last request is too near. A crawl delay is kept to the full."""
        reserved = self._reserved
        if reserved.catch_up > 0:
            return -math.inf
        if reserved.host_rate is not None and reserved.host_rate.crawl_delay:
            return self._last_use + reserved.host_rate.crawl_delay
        return self._last_use + _MIN_SPACING * reserved.interval - EARLY_SECONDS

    def _use_slot(self, now: float) -> None:
        slot, known = self._reserved.slots.popleft(), self._reserved.host_rate
        self._last_use = self._active_at = now
        if now > slot and known is not None and known.crawl_delay:
            # The next slot, which another process may reserve, must keep its distance from this instant.
            self._answers.late_use = now
            self._write_now = True
            self._wake_dispatcher()
        self._used_since_exchange += 1
        if now - self._window_start >= _STOCK_SECONDS:
            self._usual_use = int(self._used_in_window * _STOCK_SECONDS / (now - self._window_start))
            self._window_start, self._used_in_window = now, 0
        self._used_in_window += 1

    def _runs_low(self) -> bool:
        """Return whether it is time to reserve more slots.

        If requests wait for the rate, it always is. If they do not, it is when half of the slots that are usually used
        are left: without any, requests would wait for the next reservation.
        """
        return self._rate_limited or 2 * len(self._reserved.slots) <= self._usual_use

    @property
    def _rate_limited(self) -> bool:
        """Whether requests wait for the rate. They do not if they use less than half of this process's share."""
        reserved = self._reserved
        if reserved.host_rate is None:
            return True
        return reserved.host_rate.pressed and 2 * self._usual_use * reserved.interval > reserved.share * _STOCK_SECONDS

    def _wanted_slots(self) -> int:
        """Return how many slots to reserve: one for each waiter, or as many as were used since the last exchange.

        If requests do not wait for the rate, reserve enough to last for `_STOCK_SECONDS`.
        """
        reserved, used = self._reserved, self._used_since_exchange
        if reserved.host_rate is not None and reserved.host_rate.crawl_delay:
            used = 0  # a slot in stock would be used late, too near to the slot of another process
        elif not self._rate_limited:
            used = max(used, self._usual_use)
        missing = max(len(self._waiters), used) - len(reserved.slots)
        return min(missing, math.ceil(reserved.lead / reserved.interval)) if missing > 0 else 0

    # The dispatcher: a task that reserves slots and releases waiters, while there is something to do

    def _wake_dispatcher(self) -> None:
        if self._dispatcher is None:
            self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch())
        else:
            self._wake.set()

    async def _dispatch(self) -> None:
        self._active_at = max(self._active_at, self._clock.monotonic())
        try:
            while True:
                self._wake.clear()
                # Reset on every round: a request that asks during an exchange would otherwise count as served for ever.
                self._asked_for_more = False
                now = self._clock.monotonic()
                self._release_waiters(now)
                if now >= self._not_before and self._exchange_is_due(now):
                    await self._try_exchange()
                    continue
                if not self._waiters and not self._answers and now >= self._active_at + _FLUSH_SECONDS:
                    return
                await self._sleep_until(self._next_look(now))
        except Exception as error:
            # Waiters must get the error, or they wait for ever.
            self._fail_waiters(error)
            log.exception("The rate of a host cannot be kept", host=self.host)
        finally:
            if self._dispatcher is asyncio.current_task():
                self._dispatcher = None

    def _release_waiters(self, now: float) -> None:
        waiters, slots = self._waiters, self._reserved.slots
        while waiters and waiters[0].may_go.done():
            waiters.popleft()
        while waiters and self._has_usable_slot(now) and slots[0] <= now + EARLY_SECONDS:
            waiter = waiters.popleft()
            if not waiter.may_go.done():
                waiter.may_go.set_result(None)
                self._use_slot(now)
        self._reject_late_waiters(now)

    def _reject_late_waiters(self, now: float) -> None:
        """Fail the waiters whose deadline has passed, or will pass before the host opens."""
        closed = self.closed_for()
        for waiter in [each for each in self._waiters if each.deadline < now + closed or each.deadline <= now]:
            self._waiters.remove(waiter)
            if not waiter.may_go.done():
                why = self._reserved.why_closed if closed else self._busy()
                seconds = closed or max(self._reserved.interval * (len(self._waiters) + 1), 1.0)
                waiter.may_go.set_exception(HostClosedError(self.host, seconds, why))

    def _fail_waiters(self, error: Exception) -> None:
        for waiter in self._waiters:
            if not waiter.may_go.done():
                waiter.may_go.set_exception(error)
        self._waiters.clear()

    def _exchange_is_due(self, now: float) -> bool:
        if self._write_now or self._answers.crawl_delay or self.host_rate is None:
            return True
        slots, lead = self._reserved.slots, self._reserved.lead
        low = bool(self._waiters) or self._runs_low()
        if low and self._wanted_slots() and not (slots and slots[0] > now + lead / 2):
            return self._reserved.open_from() - now <= lead + EARLY_SECONDS
        return bool(self._answers) and not self._waiters and now >= self._active_at + _FLUSH_SECONDS

    def _next_look(self, now: float) -> float:
        """Return the instant at which the dispatcher must look again if nothing wakes it."""
        looks = [self._active_at + _FLUSH_SECONDS]
        if self._waiters:
            reserved = self._reserved
            looks = [min(waiter.deadline for waiter in self._waiters)]
            if reserved.slots:
                looks.append(max(reserved.slots[0], self._not_closer_than()))
            else:
                looks.append(reserved.open_from() - reserved.lead)
        return max(min(looks), self._not_before if self._not_before > now else -math.inf)

    async def _sleep_until(self, instant: float) -> None:
        """Sleep until `instant`, or until the dispatcher is woken."""
        seconds = max(instant - self._clock.monotonic(), 0.0)
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        sleeping.add_done_callback(self._slept)
        try:
            await self._wake.wait()
        finally:
            sleeping.cancel()

    def _slept(self, sleeping: asyncio.Future[None]) -> None:
        if not sleeping.cancelled():
            self._wake.set()

    async def _try_exchange(self) -> None:
        try:
            await self._exchange(self._wanted_slots())
        except PassingQueueError as error:
            # Only at debug level: the worker reports it. Requests wait, because it is not known how many requests the
            # other processes make.
            log.debug("Queue unavailable while keeping the rate of a host", host=self.host, error=str(error))
            self._not_before = self._clock.monotonic() + _RETRY_SECONDS
            self._reserved.invalidate()

    async def _exchange(self, wanted: int) -> None:
        """Write the answers and reserve `wanted` slots."""
        answers, self._answers, self._used_since_exchange = self._answers, AnswerCounts(), 0
        self._write_now = self._asked_for_more = False
        try:
            await self._reserved.exchange(answers, wanted, self._waiting_since)
        except BaseException:
            self._answers = answers.merged(self._answers)
            raise
        if self._announces and answers.refused and self.host_rate and self.closed_for() > _ANNOUNCE_SECONDS:
            await self._store.close_host(self.host, self.host_rate.closed_until)

    def _waiting_since(self) -> float | None:
        """Return since when the first request in line waits; None if none waits."""
        return self._waiters[0].since if self._waiters else None
