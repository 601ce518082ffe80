"""One host's turnstile in this process: requests queue up, and each is let through at a slot that was reserved for it.

Slots are reserved a tenth of a second ahead, in one write that also tells how the last requests were answered. So a
reservation costs little, and whatever was planned when the host refuses is soon used up: it was planned at a rate that
turned out to be too high.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError, QueueUnavailableError
from longshore.pacing.contract import HostClosedError
from longshore.pacing.host_rate import (
    REFUSALS,
    AnswerCounts,
    HostRate,
    RatePolicy,
    fold,
    forgiving,
    gap,
    reserve,
    slack,
    unknown,
)
from longshore.pacing.store import RateStore, line_name

_AHEAD_SECONDS, _FAR_AHEAD_SECONDS = 0.1, 0.25
"""How far ahead slots are reserved, and how many in one go: those of so many seconds. Further where the host allows
bursts and the rate is below what it allows, for then they are not planned in vain, and a busy machine is in time."""
_STOCK_SECONDS = 0.2
"""For so long the slots are to last where the rate holds nobody back: busy event loops are late, and disks are slow."""
_LATE_SECONDS = 0.25
_LATE_GAPS = 3
"""A slot that was missed by more than this, whichever is longer, is lost: many at once would be a burst."""
_CLOSEST = 0.9
"""Two requests of this process are never closer than this share of the time between slots, but where the host allows
bursts."""
_EARLY_SECONDS = 0.0005
"""A slot so near is there: no clock wakes anyone more exactly."""
_FLUSH_SECONDS = 1.0
"""So long after the last request, what was answered is written down without a reservation."""
_READ_SECONDS = 10.0
"""How old the time by the shared clock may get before it is asked for again."""
_SHARE_SECONDS = 2.0
_WORTH_TELLING = 2.0
"""A host that is closed for longer is announced to all, so that its jobs are not even claimed."""

log = structlog.get_logger()


class _Waiter:
    __slots__ = ("deadline", "may_go", "since")

    def __init__(self, since: float, deadline: float) -> None:
        self.since = since
        self.deadline = deadline
        self.may_go: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class HostGate:
    """Lets the requests of this process to one host through, as one identity. All of it in one event loop."""

    def __init__(
        self, host: str, identity: str, shelf: RateStore, clock: Clock, policy: Callable[[], RatePolicy]
    ) -> None:
        self.host = host
        self.standing: HostRate | None = None
        """As last seen."""
        self.share = 1.0
        """Which share of the host's slots this process takes, about."""
        self._announces = not identity
        self._name = line_name(host, identity)
        self._shelf = shelf
        self._clock = clock
        self._policy = policy
        self._version = ""
        self._offset = 0.0
        self._read_at = -math.inf
        self._read_first = True
        self._slots: deque[float] = deque()
        self._gap = 1.0
        self._slack = 0.0
        self._late = _LATE_SECONDS
        self._ahead = _AHEAD_SECONDS
        self._last = -math.inf
        self._taken = 0
        self._window, self._in_window, self._usual = -math.inf, 0, 0
        self._waiters: deque[_Waiter] = deque()
        self._tally = AnswerCounts()
        self._hurry = False
        self._asked_for_more = False
        self._active_at = -math.inf
        self._not_before = -math.inf
        self._own, self._all_slots, self._share_at = 0, 0, -math.inf
        self._stir = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    # What requests ask for

    def pass_now(self) -> bool:
        """Go through at once, if there is a slot for it. Costs next to nothing."""
        slots = self._slots
        if not slots or self._waiters:
            return False
        now = self._clock.monotonic()
        if slots[0] > now + _EARLY_SECONDS or not self._usable(now):
            return False
        self._use(now)
        if (
            not self._asked_for_more
            and (not slots or slots[-1] < now + self._ahead / 2)
            and self._runs_low()
            and self._wanted()
        ):
            self._asked_for_more = True
            self._serve()
        return True

    async def wait(self, patience: float) -> None:
        """Queue up. `HostClosedError` where that would take longer."""
        now = self._clock.monotonic()
        self._refuse_early(now, patience)
        waiter = _Waiter(now, now + patience)
        self._waiters.append(waiter)
        self._active_at = now
        self._serve()
        try:
            await waiter.may_go
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def answered(self, status: int | None, retry_after: float | None, seconds: float) -> None:
        """Take note of an answer."""
        tally = self._tally
        if status is None or (status >= 500 and status not in REFUSALS and retry_after is None):
            return  # it says nothing about the rate
        if status in REFUSALS or retry_after is not None:
            now = self._clock.monotonic()
            tally.refused += 1
            tally.hard |= status == 429 or retry_after is not None
            tally.status = status
            tally.sent = max(tally.sent, now - seconds)
            if retry_after is not None:
                tally.closed_until = max(tally.closed_until, now + retry_after)
            self._hurry = True
            self._serve()
            return
        tally.passed += 1
        if self._serving is None:
            self._serve()

    def crawl_delay(self, seconds: float) -> None:
        """Take note of what robots.txt asks for."""
        if self.standing is None or self.standing.crawl_delay != seconds:
            self._tally.crawl_delay = seconds
            self._slots.clear()
            self._serve()

    def closed_for(self) -> float:
        """Seconds until the host opens, as far as is known here; 0 where it is open."""
        if self.standing is None:
            return 0.0
        return max(self.standing.closed_until - self._shared_now(), 0.0)

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost if it were forgotten."""
        return self._serving is None and not self._tally

    async def close(self) -> None:
        """Write down what is not written yet, and stop. Whoever still waits is sent away."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        self._fail(HostClosedError(self.host, 0.0, "this worker is ending"))
        if self._tally:
            try:
                await self._exchange(0)
            except LongshoreError as error:
                log.warning("What a host last answered could not be written down", host=self.host, error=str(error))

    # Slots

    def _usable(self, now: float) -> bool:
        """Drop slots that were missed; whether the first one left may be used as far as the last use goes."""
        slots, late = self._slots, self._late
        while slots and slots[0] < now - late:
            slots.popleft()
        return bool(slots) and (self._slack > 0 or now - self._last >= _CLOSEST * self._gap - _EARLY_SECONDS)

    def _use(self, now: float) -> None:
        self._slots.popleft()
        self._last = self._active_at = now
        self._taken += 1
        if now - self._window >= _STOCK_SECONDS:
            self._usual = int(self._in_window * _STOCK_SECONDS / (now - self._window))
            self._window, self._in_window = now, 0
        self._in_window += 1

    def _runs_low(self) -> bool:
        """Whether it is time to reserve more. Where the rate holds requests back, it always is.

        Where it does not, all slots of a reservation are soon there to be used, however many: what counts is that there
        are some left while the next ones are reserved, or requests would wait for nothing but that.
        """
        return self._held_back or 2 * len(self._slots) <= self._usual

    @property
    def _held_back(self) -> bool:
        """Whether the rate is what requests wait for; not where they are fewer than half of this process's share."""
        if self.standing is None:
            return True
        return self.standing.pressed and 2 * self._usual * self._gap > self.share * _STOCK_SECONDS

    def _refuse_early(self, now: float, patience: float) -> None:
        if self.standing is None:
            return
        closed = self.closed_for()
        if closed > patience:
            raise HostClosedError(self.host, closed, self.standing.why)
        wait = max(self.standing.next - self._offset - now, 0.0) if not self._slots else 0.0
        wait += len(self._waiters) * self._gap
        if wait > patience:
            raise HostClosedError(self.host, wait, self._busy())

    def _busy(self) -> str:
        return f"it is asked once every {self._gap:.3g} s, and {len(self._waiters)} requests are waiting"

    # The one who lets them through

    def _serve(self) -> None:
        if self._serving is None:
            self._serving = asyncio.get_running_loop().create_task(self._serve_all())
        else:
            self._stir.set()

    async def _serve_all(self) -> None:
        self._active_at = max(self._active_at, self._clock.monotonic())
        try:
            while True:
                self._stir.clear()
                # Heard. Whoever asks while a reservation is being written would count as heard for ever otherwise.
                self._asked_for_more = False
                now = self._clock.monotonic()
                self._let_through(now)
                if now >= self._not_before and self._exchange_is_due(now):
                    await self._try_exchange()
                    continue
                if not self._waiters and not self._tally and now >= self._active_at + _FLUSH_SECONDS:
                    return
                await self._until(self._next_look(now))
        except Exception as error:
            # Whoever waits must learn of it, or waits for ever.
            self._fail(error)
            log.exception("The pace of a host cannot be kept", host=self.host)
        finally:
            if self._serving is asyncio.current_task():
                self._serving = None

    def _let_through(self, now: float) -> None:
        waiters = self._waiters
        while waiters and waiters[0].may_go.done():
            waiters.popleft()
        while waiters and self._usable(now) and self._slots[0] <= now + _EARLY_SECONDS:
            waiter = waiters.popleft()
            if not waiter.may_go.done():
                waiter.may_go.set_result(None)
                self._use(now)
        self._send_away(now)

    def _send_away(self, now: float) -> None:
        """Those who have waited, or know that they would wait, longer than they may."""
        closed = self.closed_for()
        for waiter in [each for each in self._waiters if each.deadline < now + closed or each.deadline <= now]:
            self._waiters.remove(waiter)
            if not waiter.may_go.done():
                why = self.standing.why if closed and self.standing else self._busy()
                seconds = closed or max(self._gap * (len(self._waiters) + 1), 1.0)
                waiter.may_go.set_exception(HostClosedError(self.host, seconds, why))

    def _fail(self, error: Exception) -> None:
        for waiter in self._waiters:
            if not waiter.may_go.done():
                waiter.may_go.set_exception(error)
        self._waiters.clear()

    def _wanted(self) -> int:
        """How many slots to reserve: for those who wait, or as many as were used of the last ones.

        Where the rate holds nobody back, enough to last for a while.
        """
        used = self._taken if self._held_back else max(self._taken, self._usual)
        missing = max(len(self._waiters), used) - len(self._slots)
        return min(missing, math.ceil(self._ahead / self._gap)) if missing > 0 else 0

    def _exchange_is_due(self, now: float) -> bool:
        if self._hurry or self._tally.crawl_delay or self.standing is None:
            return True
        low = bool(self._waiters) or self._runs_low()
        if low and self._wanted() and not (self._slots and self._slots[0] > now + self._ahead / 2):
            return self._open_from() - now <= self._ahead + _EARLY_SECONDS
        return bool(self._tally) and not self._waiters and now >= self._active_at + _FLUSH_SECONDS

    def _open_from(self) -> float:
        """From when on there are free slots, as far as is known here."""
        known = self.standing
        return -math.inf if known is None else max(known.next, known.closed_until) - self._offset

    def _next_look(self, now: float) -> float:
        looks = [self._active_at + _FLUSH_SECONDS]
        if self._waiters:
            looks = [min(waiter.deadline for waiter in self._waiters)]
            if self._slots:
                looks.append(self._slots[0] if self._slack else max(self._slots[0], self._last + _CLOSEST * self._gap))
            else:
                looks.append(self._open_from() - self._ahead)
        return max(min(looks), self._not_before if self._not_before > now else -math.inf)

    async def _until(self, instant: float) -> None:
        """Sleep until then, or until something happens."""
        seconds = max(instant - self._clock.monotonic(), 0.0)
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        sleeping.add_done_callback(self._woken)
        try:
            await self._stir.wait()
        finally:
            sleeping.cancel()

    def _woken(self, sleeping: asyncio.Future[None]) -> None:
        if not sleeping.cancelled():
            self._stir.set()

    # The shelf

    def _shared_now(self) -> float:
        return self._clock.monotonic() + self._offset

    async def _try_exchange(self) -> None:
        try:
            await self._exchange(self._wanted())
        except QueueUnavailableError as error:
            # The worker says it aloud; requests wait, for nobody knows what the others do to the host meanwhile.
            log.debug("Queue unavailable while keeping the pace of a host", host=self.host, error=str(error))
            self._not_before = self._clock.monotonic() + 1.0
            self._read_first = True

    async def _exchange(self, wanted: int) -> None:
        """Tell what was answered, and reserve slots; again from the start where another process was faster."""
        tally, self._tally, self._taken = self._tally, AnswerCounts(), 0
        self._hurry = self._asked_for_more = False
        try:
            while True:
                if self._read_first or self._clock.monotonic() - self._read_at > _READ_SECONDS:
                    await self._read()
                policy, now = self._policy(), self._shared_now()
                known = self.standing or unknown(now, policy)
                new = fold(known, tally.moved(self._offset), now, policy) if tally else known
                instants: list[float] = []
                if wanted and max(new.next, new.closed_until) <= now + self._ahead + 2 * _EARLY_SECONDS:
                    since = min((self._waiters[0].since + self._offset, now)) if self._waiters else now
                    new, instants = reserve(new, now, wanted, policy, since)
                if new == self.standing:
                    break
                version = await self._shelf.write(self._name, self._version, new)
                self._read_first = version is None
                if version is not None:
                    self._version = version
                    self._see(new, policy)
                    break
        except BaseException:
            self._take_back(tally)
            raise
        self._slots.extend(instant - self._offset for instant in instants)
        self._count(len(instants))
        if self._announces and tally.refused and self.closed_for() > _WORTH_TELLING:
            await self._shelf.close_host(self.host, new.closed_until)

    async def _read(self) -> None:
        before = self._clock.monotonic()
        kept = await self._shelf.read(self._name)
        after = self._clock.monotonic()
        self._offset = kept.now - (before + after) / 2
        self._read_at, self._read_first = after, False
        self._version = kept.version
        if kept.standing is not None:
            self._see(kept.standing, self._policy())

    def _see(self, standing: HostRate, policy: RatePolicy) -> None:
        if self.standing is not None and standing.voided_at > self.standing.voided_at:
            self._slots.clear()
        self.standing = standing
        self._gap, self._slack = gap(standing, policy), slack(standing, policy)
        self._late = max(self._slack or _LATE_SECONDS, _LATE_GAPS * self._gap)
        known = forgiving(standing) and standing.rate <= standing.ceiling
        self._ahead = _FAR_AHEAD_SECONDS if known else _AHEAD_SECONDS

    def _take_back(self, tally: AnswerCounts) -> None:
        later, self._tally = self._tally, msgspec.structs.replace(tally)
        mine = self._tally
        mine.passed += later.passed
        mine.refused += later.refused
        mine.hard |= later.hard
        mine.status = later.status or mine.status
        mine.sent = max(mine.sent, later.sent)
        mine.closed_until = max(mine.closed_until, later.closed_until)
        mine.crawl_delay = later.crawl_delay or mine.crawl_delay

    def _count(self, reserved: int) -> None:
        """See which share of all slots is this process's."""
        self._own += reserved
        now, standing = self._clock.monotonic(), self.standing
        if standing is None or now - self._share_at < _SHARE_SECONDS:
            return
        everyone = standing.slots - self._all_slots
        if self._share_at > -math.inf and everyone > 0:
            self.share = min(self._own / everyone, 1.0)
        self._own, self._all_slots, self._share_at = 0, standing.slots, now
