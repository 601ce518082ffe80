"""The rate of one host, and how it is learned from answers. Pure functions: old state and events make the new state.

How it is learned
    The rate rises while answers are good, and every refusal measures what the host allows: `limit_model` says how the
    rate rises, and how two refusals together determine the limit. Answers arrive late and at several processes, so
    the measurement counts slots: how many were handed out between the last refusal and the refused request, and over
    how many seconds. From the second refusal on, the rate stays near the measured limit, and probes above it now and
    then, in case the host allows more by now; the better the measurement, the less often.

    The rate rises only while requests wait for it: a rate that is not used up teaches nothing.

Refusals
    429, and any answer with Retry-After, is a refusal. 403 and 503 may have other causes, so they halve the rate and
    leave the ceiling: if there was another cause, the rate is soon back. Requests that were in flight when the rate was
    lowered do not lower it again; neither does a refusal before there are enough slots to count. A host that keeps
    refusing is closed for a while, each time for longer.
"""

from __future__ import annotations

import random
from functools import partial

import msgspec

from longshore.pacing.limit_model import (
    ANSWERS_TO_DOUBLE,
    SLOW_FACTOR,
    SLOW_FROM,
    limit_explaining_both,
    middle_of_last_step,
    overshoot,
    probe_overshoot,
    probe_rate,
    slow_ramp_overshoot,
)

_OUTDATED_FACTOR = 2.0
"""A rate this many times the first refused one, without a second refusal, makes the first refusal obsolete."""
_WIDEST, _WIDEST_IF_SLOW, _NARROWEST = 0.2, 0.15, 0.03
"""How far below the ceiling a probe starts, as a share of it, by how well the ceiling is known. At low rates each
refusal is a larger share of the answers, so probes are longer."""
_SLOW_PER_SECOND = 5.0
_BELOW_REFUSED, _BELOW_MEASURED = 0.97, 0.99
"""The ceiling is at most this share of the rate that was refused, and of the limit that was measured."""
_NO_BURST = 0.25
"""Two ramps with less overshoot than this ended at the limit itself."""
_FIRST_RAMP_TRUST = 0.75
"""The share of the burst measured by the fast ramp that is relied on: so steep a ramp overestimates the burst."""
_CERTAIN = 0.4
"""A probe whose overshoot is less than this share of the burst cannot have filled the bucket."""
_TOO_FEW, _FEW = 3, 6
"""Fewer slots than the first since the last refusal measure nothing; fewer than the second hardly anything."""
_GRACE_SECONDS = 0.25
"""For this long, processes that do not know yet that their slots are void may still use them."""
_CLEARING_SECONDS = 0.1
"""For this long no slots are handed out after slots became void: in most cases the other processes know by then."""
_VOID_BELOW = 0.8
"""If the rate falls below this share of the old one, the slots reserved at the old rate become void."""
_MAX_PLAN = 8
"""How many reservations are remembered: with many processes, those of the time until an answer is known."""
_MIN_USEFUL_BURST = 2.0
"""A smaller burst may be an error of measurement."""
_MAX_CATCH_UP_SECONDS = 0.5
_ROUNDS_TO_CLOSE = 6
_FIRST_CLOSURE, _LONGEST_CLOSURE = 60.0, 900.0

_KEPT_SECONDS, _KEPT_UNREFUSED_SECONDS = 8 * 86400.0, 600.0
"""How long the rate of a host is kept after the last request: long enough for a weekly run, if the host ever refused.
Nothing is known of a host that never did."""

REFUSALS = frozenset({403, 429, 503})
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
    """Whether one of the refusals was a 429 or came with Retry-After."""
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
        self.hard |= status == 429 or closed_until > 0
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
    width: float = _WIDEST
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
    """How often the rate was lowered since the last good answer."""
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


def _next_interval(state: HostRate, policy: RatePolicy) -> float:
    if policy.delay is None:
        return interval(state, policy)
    return max(random.uniform(*policy.delay), state.crawl_delay)  # noqa: S311


def fold(state: HostRate, answers: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    """Return the state after these answers."""
    state = msgspec.structs.replace(
        state,
        crawl_delay=answers.crawl_delay or state.crawl_delay,
        answers=state.answers + answers.passed + answers.refused,
        refusals=state.refusals + answers.refused,
    )
    if answers.late_use and state.crawl_delay:
        state = msgspec.structs.replace(state, next=max(state.next, answers.late_use + state.crawl_delay))
    if answers.passed:
        state = _raised(state, answers.passed, now, policy)
    if answers.refused:
        state = msgspec.structs.replace(state, last_refusal=now, last_status=answers.status)
        if answers.sent >= state.lowered_at:
            state = _lowered(state, answers, now, policy)
        elif answers.sent > state.since:
            state = msgspec.structs.replace(state, refused=state.refused + answers.refused)
        state = _closed(state, answers.closed_until, f"it answered {answers.status} with Retry-After", now)
    return state


# Raising the rate


def _raised(state: HostRate, passed: int, now: float, policy: RatePolicy) -> HostRate:
    rate, overshot = state.rate, state.overshot
    countable = passed if state.pressed else 0
    doublings = min(max(now - state.grown_at, 0.0), countable / ANSWERS_TO_DOUBLE)
    if state.ceiling:
        goal = probe_rate(state.ceiling, state.width, state.passed + countable)
        rate = max(rate, min(rate * 2 ** (doublings / SLOW_FACTOR), goal))
    else:
        slow = overshot and rate >= SLOW_FROM * overshot
        rate *= 2 ** (doublings / SLOW_FACTOR if slow else doublings)
        if rate > _OUTDATED_FACTOR * overshot:
            overshot = 0.0
    return msgspec.structs.replace(
        state,
        rate=min(max(rate, policy.slowest), policy.fastest),
        overshot=overshot,
        passed=state.passed + countable,
        grown_at=now,
        rounds=0,
    )


# Lowering the rate


def _lowered(state: HostRate, answers: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    if not answers.hard:
        lowered = _slowed_to(state, state.rate / 2, now, policy)
    elif state.overshot and _count_slots(state, answers)[1] < _TOO_FEW:
        lowered = msgspec.structs.replace(state, refused=state.refused + answers.refused)
    else:
        lowered = _new_ramp(state, _measured(state, answers), answers, now, policy)
    rounds = state.rounds + 1
    lowered = msgspec.structs.replace(lowered, rounds=rounds)
    if rounds < _ROUNDS_TO_CLOSE:
        return lowered
    seconds = min(_FIRST_CLOSURE * 2 ** (rounds - _ROUNDS_TO_CLOSE), _LONGEST_CLOSURE)
    return _closed(lowered, now + seconds, f"it refused {rounds} times in a row, last with {answers.status}", now)


def _slowed_to(state: HostRate, rate: float, now: float, policy: RatePolicy) -> HostRate:
    rate = max(rate, policy.slowest)
    return msgspec.structs.replace(
        state,
        rate=rate,
        next=max(state.next, now + max(1 / rate, state.crawl_delay)),
        lowered_at=max(state.next, now) + _GRACE_SECONDS,
        voided_at=now,
        grown_at=now,
    )


def _new_ramp(state: HostRate, learned: HostRate, answers: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    """Start a new ramp: with the slots that are handed out already, or after them if they are void."""
    rate = max(learned.rate, policy.slowest)
    begun = msgspec.structs.replace(
        learned,
        rate=rate,
        since=answers.sent,
        used=_count_slots(state, answers)[3],
        spent=max(state.next - answers.sent, 0.0),
        lowered_at=max(state.next, now) + _GRACE_SECONDS,
        grown_at=now,
    )
    if rate >= _VOID_BELOW * state.rate and allows_bursts(learned):
        return begun
    after = max(now + max(1 / rate, state.crawl_delay), min(state.next, now + _CLEARING_SECONDS))
    return msgspec.structs.replace(
        begun, next=after, plan=(), since=begun.lowered_at, used=0.0, spent=after - now, voided_at=now
    )


def _count_slots(state: HostRate, answers: AnswerCounts) -> tuple[float, float, float, float]:
    """Return the rate at which the refused request was spaced, the slots before it, their seconds, the slots after."""
    rate, after, end = state.rate, 0.0, state.next
    for begin, spacing in reversed(state.plan):
        rate = spacing
        after += max(end - max(begin, answers.sent), 0.0) * spacing
        end = begin
        if begin + 0.9 / spacing <= answers.sent:  # the reservation before determined the distance to the first slot
            break
    return rate, state.used - after, max(state.spent - max(state.next - answers.sent, 0.0), 1e-3), after


def _measured(state: HostRate, answers: AnswerCounts) -> HostRate:
    """Return the state with the ceiling and the rate that a refusal measured."""
    rate, used, spent, _ = _count_slots(state, answers)
    ceiling, overshot, width = state.ceiling, state.overshot, state.width
    mean = min(max((used - state.refused) / spent, rate / (2 if used < _FEW else 16)), rate)
    if not overshot:
        # The more requests passed, the more of them may have been the burst. The next ramp must start below the limit.
        begin = min(max(mean / min(3.0, 2.0 + state.passed / 28), rate / 16), rate / 2)
        overshot = middle_of_last_step(rate)
    elif not ceiling:
        first = partial(overshoot, overshot, slowness=1.0)
        second = partial(slow_ramp_overshoot, rate, SLOW_FROM * overshot)
        limit = limit_explaining_both(second, first, mean, rate)
        ceiling = _BELOW_REFUSED * rate if first(limit) < _NO_BURST else min(limit, _BELOW_REFUSED * rate)
        width = _WIDEST if ceiling >= _SLOW_PER_SECOND else _WIDEST_IF_SLOW
        begin = (1 - width) * ceiling
    else:
        first = partial(overshoot, overshot, slowness=1.0)
        last = partial(probe_overshoot, rate, ceiling=ceiling, width=width)
        limit = limit_explaining_both(last, lambda level: _FIRST_RAMP_TRUST * first(level), mean, rate)
        doubt = 0.5 / used
        if last(mean) > _CERTAIN * first(mean):
            doubt = max(doubt, (rate / mean - 1) / 8)
        if abs(limit / ceiling - 1) < width:
            doubt = min(doubt, width / 2)
        ceiling, width = _BELOW_MEASURED * limit, min(max(doubt, _NARROWEST), _WIDEST)
        begin = (1 - width) * limit
    return msgspec.structs.replace(
        state,
        rate=begin,
        ceiling=ceiling,
        overshot=overshot,
        burst=overshoot(overshot, ceiling, 1.0) if ceiling else 0.0,
        width=width,
        passed=0,
        refused=0,
    )


def _closed(state: HostRate, until: float, why: str, now: float) -> HostRate:
    if until <= max(state.closed_until, now):
        return state
    # Slots that are reserved already would be used while the host is closed.
    return msgspec.structs.replace(state, closed_until=until, why=why, next=max(state.next, until), voided_at=now)
