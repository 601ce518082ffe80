"""The rate of one host: what is known of it, the user's limits, and the slots that are handed out. Pure functions.

`rate_learning` says how answers change the rate.
"""

from __future__ import annotations

import random

import msgspec

from longshore.pacing.contract import BLOCK_PAGE

WIDEST = 0.2
"""How far below the ceiling a probe starts at most, as a share of it."""
_MAX_PLAN = 8
"""How many reservations are remembered: with many processes, those of the time until an answer is known."""
_MIN_USEFUL_BURST = 2.0
"""A smaller burst may be an error of measurement."""
_MAX_CATCH_UP_SECONDS = 0.5
_GAP_GROWTH = 2.0
"""While a host refuses everything, each gap between two single requests is this many times as long as the one before:
few are refused until it accepts again, and it is asked again after no more than twice the time for which it refused."""
_LONGEST_GAP = 900.0

_KEPT_SECONDS, _KEPT_UNREFUSED_SECONDS = 8 * 86400.0, 600.0
"""How long the rate of a host is kept after the last request: long enough for a weekly run, if the host ever refused.
Nothing is known of a host that never did."""

REFUSALS = frozenset({403, 429, 503, BLOCK_PAGE})
"""The statuses by which a host says that it gets too many requests."""


class RatePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The user's limits for the rate of requests to a host."""

    first: float = 1.0
    """Requests a second to a host that is not known yet."""
    slowest: float = 1 / 60
    fastest: float = 1000.0
    """The bounds, in requests a second. A delay that robots.txt asks for goes below them."""
    jitter: float = 0.0
    """The longest random delay of a request, as a share of the time between two."""
    delay: tuple[float, float] | None = None
    """Fixed delays instead of a learned rate: the fewest and the most seconds between two requests, drawn each time."""

    def shared_by(self, number: int) -> RatePolicy:
        """Return the limits for each of `number` machines, so that together they keep to these."""
        if number == 1:
            return self
        return msgspec.structs.replace(
            self,
            first=self.first / number,
            slowest=self.slowest / number,
            fastest=self.fastest / number,
            delay=None if self.delay is None else (self.delay[0] * number, self.delay[1] * number),
        )


class AnswerCounts(msgspec.Struct, kw_only=True):
    """Answers that one process got and has not written to the store yet."""

    passed: int = 0
    refused: int = 0
    hard: bool = False
    """Whether one of the refusals was no 403, which may forbid a single page, or came with Retry-After."""
    status: int = 0
    """Of the last refusal."""
    sent: float = 0.0
    """When the last refused request was sent."""
    passed_sent: float = 0.0
    """When the last request was sent that got a good answer."""
    seconds: float = 0.0
    """How long the good answers took together."""
    closed_until: float = 0.0
    """Until when Retry-After asked to wait; 0 if it did not."""
    crawl_delay: float = 0.0
    late_use: float = 0.0
    """When a request was sent after its slot, to a host with a crawl delay; 0 if each was sent in time."""

    def __bool__(self) -> bool:
        return bool(self.passed or self.refused or self.crawl_delay or self.late_use)

    def pass_one(self, sent: float, seconds: float) -> None:
        """Count a good answer."""
        self.passed += 1
        self.passed_sent = max(self.passed_sent, sent)
        self.seconds += seconds

    def refuse_one(self, status: int, sent: float, closed_until: float = 0.0) -> None:
        """Count a refusal; `closed_until` is when it asks to try again, 0 if it does not say."""
        self.refused += 1
        self.hard |= status != 403 or closed_until > 0
        self.status = status
        self.sent = max(self.sent, sent)
        self.closed_until = max(self.closed_until, closed_until)

    def merged(self, later: AnswerCounts) -> AnswerCounts:
        """Return the counts of these answers and of `later` ones."""
        return AnswerCounts(
            passed=self.passed + later.passed,
            refused=self.refused + later.refused,
            hard=self.hard or later.hard,
            status=later.status or self.status,
            sent=max(self.sent, later.sent),
            passed_sent=max(self.passed_sent, later.passed_sent),
            seconds=self.seconds + later.seconds,
            closed_until=max(self.closed_until, later.closed_until),
            crawl_delay=later.crawl_delay or self.crawl_delay,
            late_use=max(self.late_use, later.late_use),
        )

    def shifted(self, seconds: float) -> AnswerCounts:
        """Return the same counts by a clock `seconds` ahead: answers may arrive before the shared time is known."""
        until = self.closed_until + seconds if self.closed_until else 0.0
        late_use = self.late_use + seconds if self.late_use else 0.0
        passed_sent = self.passed_sent + seconds if self.passed_sent else 0.0
        return msgspec.structs.replace(
            self, sent=self.sent + seconds, passed_sent=passed_sent, closed_until=until, late_use=late_use
        )


class HostRate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The learned state of a host, shared by all processes that ask it. The field names are the stored format.

    Instants are seconds since 1970 by the clock that the processes share.
    """

    rate: float
    ceiling: float = 0.0
    """The limit of the host as far as is known, in requests a second; 0 while it is unknown."""
    overshot: float = 0.0
    """The rate at which the first ramp was refused; 0 before the first refusal."""
    burst: float = 0.0
    """How many requests the host lets through at once after a pause, as far as is known; 0 if unknown."""
    width: float = WIDEST
    """How far below the ceiling the probe starts, as a share of it."""
    since: float = 0.0
    """Refusals of requests sent after this are counted in `refused`."""
    passed: int = 0
    """Good answers since the last refusal, while requests were waiting for the rate."""
    used: float = 0.0
    """Slots handed out since the last refusal."""
    spent: float = 0.0
    """The seconds that these slots cover."""
    refused: int = 0
    """How many of these slots were refused, too early to be a measurement."""
    grown_at: float
    lowered_at: float = 0.0
    """From this instant on, all requests are sent at the rate to which it was last lowered."""
    voided_at: float = 0.0
    """Slots that were reserved before this are void: the rate was far too high."""
    pressed: bool = True
    """Whether requests wait for the rate, so that the rate is used up."""
    next: float = 0.0
    """The first instant that is not reserved."""
    closed_until: float = 0.0
    why: str = ""
    """Why the host is closed, or was closed last."""
    rounds: int = 0
    """How often requests that were sent after one another were refused since the last good answer."""
    gap: float = 0.0
    """The seconds between two single requests that ask whether the host accepts again; 0 while it does."""
    refusing_since: float = 0.0
    """When the first of these refusals came."""
    last_refusal: float = 0.0
    last_status: int = 0
    crawl_delay: float = 0.0
    answers: int = 0
    refusals: int = 0
    slots: int = 0
    """Slots ever handed out."""
    plan: tuple[tuple[float, float], ...] = ()
    """The last reservations: the instant of the first slot, and the rate by which the slots are spaced."""


def unknown(now: float, policy: RatePolicy) -> HostRate:
    """Return the state of a host that was never asked."""
    return HostRate(rate=policy.first, grown_at=now)


def worth_keeping(state: HostRate, now: float) -> bool:
    """Return whether deleting it would lose anything: an unknown host is asked slowly at first."""
    last = max(state.next, state.closed_until, state.grown_at)
    return now - last < (_KEPT_SECONDS if state.refusals else _KEPT_UNREFUSED_SECONDS)


def interval(state: HostRate, policy: RatePolicy) -> float:
    """Return the seconds between two requests; with random delays, their mean."""
    if policy.delay is not None:
        return max(sum(policy.delay) / 2, state.crawl_delay)
    # The stored rate may be above the limit: it was lowered since, or another machine has joined.
    return max(1 / min(state.rate, policy.fastest), state.crawl_delay)


def allows_bursts(state: HostRate) -> bool:
    """Return whether the host is known to allow bursts that are large enough to rely on."""
    return state.burst >= _MIN_USEFUL_BURST


def catch_up(state: HostRate, policy: RatePolicy) -> float:
    """Return how many seconds after its time a slot may still be used.

    A host that allows a burst has saved up the requests that were not sent in the meantime, and half of the burst is
    safe to use. A host that allows none would refuse them.
    """
    if policy.delay is not None or state.crawl_delay or not allows_bursts(state):
        return 0.0
    return min(state.burst / 2 / state.rate, _MAX_CATCH_UP_SECONDS)


def reserve(
    state: HostRate, now: float, count: int, policy: RatePolicy, waiting_since: float | None = None
) -> tuple[HostRate, list[float]]:
    """Reserve the next `count` free slots. Return the new state, and the instants at which requests may be sent.

    If a request has waited since `waiting_since` (default: now), slots may lie up to `catch_up` seconds in the past.
    """
    if state.gap:
        return _reserve_single(state, now)
    since = now if waiting_since is None else waiting_since
    begin = max(state.next, state.closed_until, min(max(since, now - catch_up(state, policy)), now))
    pressed = state.next >= min(since, now) - interval(state, policy) / 2
    spacing, first, instants = interval(state, policy), begin, []
    for _ in range(count):
        instant = begin + random.uniform(0, policy.jitter) * spacing  # noqa: S311
        instants.append(instant)
        begin += _next_interval(state, policy)
        if state.crawl_delay:
            # The random delay must not bring the next request closer.
            begin = max(begin, instant + state.crawl_delay)
    reserved = msgspec.structs.replace(
        state,
        next=begin,
        pressed=pressed,
        slots=state.slots + count,
        plan=(*state.plan[-_MAX_PLAN + 1 :], (first, 1 / spacing)),
        used=state.used + count,
        spent=state.spent + begin - first,
    )
    return reserved, instants


def _reserve_single(state: HostRate, now: float) -> tuple[HostRate, list[float]]:
    """Reserve the slot of a single request that asks whether the host accepts again."""
    instant, gap = max(state.next, state.closed_until, now), min(state.gap * _GAP_GROWTH, _LONGEST_GAP)
    following = instant + max(gap, state.crawl_delay)
    return msgspec.structs.replace(state, next=following, gap=gap, pressed=True, slots=state.slots + 1), [instant]


def _next_interval(state: HostRate, policy: RatePolicy) -> float:
    if policy.delay is None:
        return interval(state, policy)
    return max(random.uniform(*policy.delay), state.crawl_delay)  # noqa: S311
