"""The rate of one host: how it is learned from answers. Pure: what is known and what happened make what is known next.

How it is learned
    The rate climbs while answers are good, and every refusal is a measurement of what the site allows: `climbs` says
    how it climbs, and what two refusals tell that one does not. Answers come late and from several processes, so what
    is counted are slots: how many there were since the last refusal until the one that was refused, and in how many
    seconds. From the second refusal on the rate stays near what was measured, and looks above it now and then, in case
    the site allows more by now; the better the measurement, the less often.

    A climb goes on only while the rate is what holds requests back: nothing is learned from a rate that nobody uses.

Refusals
    429 and whatever comes with Retry-After are refusals. 403 and 503 may have other reasons, so they halve the rate and
    leave the ceiling: it is soon reached again if that was all. Requests that were under way when the rate was lowered
    do not lower it again, nor does what is refused before there is something to count. A host that refuses and refuses
    is closed for a while, and each time for longer.
"""

from __future__ import annotations

import random
from functools import partial

import msgspec

from longshore.pacing.limit_model import (
    ANSWERS_TO_DOUBLE,
    SLOW,
    SLOW_FROM,
    agreed,
    before_the_step,
    spilled,
    spilled_on_tooth,
    spilled_twice,
    tooth,
)

_LIFTED = 2.0
"""So far above where it was refused first without a second refusal, and that says nothing any more."""
_WIDEST, _WIDEST_WHEN_FEW, _NARROWEST = 0.2, 0.15, 0.03
"""How far below the ceiling a tooth begins, as a share of it, by how well the ceiling is known. Where there are few
answers, each refusal is a larger share of them, so teeth are longer."""
_FEW_A_SECOND = 5.0
_BELOW_REFUSED, _BELOW_MEASURED = 0.97, 0.99
"""How far below what was refused, and what was measured, the ceiling is at the most."""
_NO_BURST = 0.25
"""Two climbs that spilled less than this ended at the limit itself."""
_FIRST_COUNTS = 0.75
"""The share of the burst by the fast climb that is counted on: a rate that rises so fast is easily taken for more."""
_CERTAIN = 0.4
"""A tooth that spilled less than this share of the burst cannot have filled it."""
_TOO_FEW, _FEW = 3, 6
"""So few slots since the last refusal measure nothing; so few, hardly."""
_GRACE_SECONDS = 0.25
"""So long after their time slots may still be used, by processes that do not know yet that they are void."""
_CLEARING_SECONDS = 0.1
"""So long nobody is given a slot when those that were given are void: in most cases the others know by then."""
_TOO_FAST = 0.8
"""A rate that falls below this share makes the slots of the old one void."""
_PLAN = 8
"""How many reservations are remembered: those of as long as an answer may take to be known, where there are many."""
_WORTH_CATCHING_UP = 2.0
"""A burst of fewer may be a mistake."""
_LONGEST_SLACK = 0.5
_ROUNDS_TO_CLOSE = 6
_FIRST_CLOSURE, _LONGEST_CLOSURE = 60.0, 900.0

_KEPT_SECONDS, _KEPT_UNREFUSED_SECONDS = 8 * 86400.0, 600.0
"""How long what is known of a host outlives the last request: a run every week finds it, and where a host never refused
there is nothing to find."""

REFUSALS = frozenset({403, 429, 503})
"""The statuses by which a host says that it is asked too much."""


class RatePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decides about the pace of hosts."""

    first: float = 1.0
    """Requests a second to begin with."""
    slowest: float = 1 / 60
    fastest: float = 1000.0
    """The bounds, in requests a second. A delay that robots.txt asks for goes below them."""
    jitter: float = 0.0
    """By how much a request is put off at random, as a share of the time between two."""
    delay: tuple[float, float] | None = None
    """Fixed delays instead of a learned rate: the fewest and the most seconds between two requests, drawn each time."""


class AnswerCounts(msgspec.Struct, kw_only=True):
    """Answers of one process that are not in the standing yet."""

    passed: int = 0
    refused: int = 0
    hard: bool = False
    """Whether one of the refusals was a 429 or came with Retry-After."""
    status: int = 0
    """Of the last refusal."""
    sent: float = 0.0
    """When the last refused request was sent."""
    closed_until: float = 0.0
    """What Retry-After asked for."""
    crawl_delay: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.passed or self.refused or self.crawl_delay)

    def moved(self, seconds: float) -> AnswerCounts:
        """The same by a clock so many seconds ahead: answers may come before it is known what time all share."""
        until = self.closed_until + seconds if self.closed_until else 0.0
        return msgspec.structs.replace(self, sent=self.sent + seconds, closed_until=until)


class HostRate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a host, as all who ask it share it. Instants are seconds since 1970 by the clock they share."""

    rate: float
    ceiling: float = 0.0
    """What the host seems to allow; 0 while that is unknown."""
    overshot: float = 0.0
    """The rate at which the climb before this one was refused; 0 before the first refusal."""
    burst: float = 0.0
    """How many the host seems to let through at once beyond the ceiling, when it was left alone; 0 where unknown."""
    width: float = _WIDEST
    """How far below the ceiling the tooth begins, as a share of it."""
    since: float = 0.0
    """From when on refusals are counted in `refused`."""
    passed: int = 0
    """What passed since the last refusal, while requests were waiting for the rate."""
    used: float = 0.0
    """How many slots were handed out since then."""
    spent: float = 0.0
    """How many seconds they took up."""
    refused: int = 0
    """How many of them were refused, which were too few to measure."""
    grown_at: float
    lowered_at: float = 0.0
    """From when on requests are surely sent at the rate to which it was last lowered."""
    voided_at: float = 0.0
    """Slots that were reserved before this are void: the rate was far too high."""
    pressed: bool = True
    """Whether requests are waiting for the rate, rather than the rate for requests."""
    next: float = 0.0
    """The first instant that is nobody's."""
    closed_until: float = 0.0
    why: str = ""
    """Why it is, or was last, closed."""
    rounds: int = 0
    """How often the rate was lowered since something last passed."""
    last_refusal: float = 0.0
    last_status: int = 0
    crawl_delay: float = 0.0
    answers: int = 0
    refusals: int = 0
    slots: int = 0
    """How many were ever handed out."""
    plan: tuple[tuple[float, float], ...] = ()
    """The last reservations: from when on slots were spaced by which rate."""


def unknown(now: float, policy: RatePolicy) -> HostRate:
    """A host that was never asked."""
    return HostRate(rate=policy.first, grown_at=now)


def worth_keeping(standing: HostRate, now: float) -> bool:
    """Whether anything would be lost if it were forgotten: a host that is not known is asked slowly at first."""
    last = max(standing.next, standing.closed_until, standing.grown_at)
    return now - last < (_KEPT_SECONDS if standing.refusals else _KEPT_UNREFUSED_SECONDS)


def gap(standing: HostRate, policy: RatePolicy) -> float:
    """The seconds between two requests; where they are drawn, the mean."""
    if policy.delay is not None:
        return max(sum(policy.delay) / 2, standing.crawl_delay)
    return max(1 / standing.rate, standing.crawl_delay)


def forgiving(standing: HostRate) -> bool:
    """Whether the host seems to allow bursts that are worth relying on."""
    return standing.burst >= _WORTH_CATCHING_UP


def slack(standing: HostRate, policy: RatePolicy) -> float:
    """How many seconds late a slot may be used as if nothing had happened.

    A site that allows a burst has kept what was not asked of it meanwhile: the half of that is safe to ask for. One
    that allows none has not.
    """
    if policy.delay is not None or standing.crawl_delay or not forgiving(standing):
        return 0.0
    return min(standing.burst / 2 / standing.rate, _LONGEST_SLACK)


def reserve(
    standing: HostRate, now: float, count: int, policy: RatePolicy, waiting_since: float | None = None
) -> tuple[HostRate, list[float]]:
    """Take so many slots, the next that are free: the instants at which requests may be sent.

    What somebody has waited for since then (by default: now) may be handed out a little late, by the slack.
    """
    since = now if waiting_since is None else waiting_since
    begin = max(standing.next, standing.closed_until, min(max(since, now - slack(standing, policy)), now))
    pressed = standing.next >= min(since, now) - gap(standing, policy) / 2
    apart, first, instants = gap(standing, policy), begin, []
    for _ in range(count):
        instants.append(begin)
        begin += _draw(standing, policy)
    put_off = [instant + random.uniform(0, policy.jitter) * apart for instant in instants]  # noqa: S311
    reserved = msgspec.structs.replace(
        standing,
        next=begin,
        pressed=pressed,
        slots=standing.slots + count,
        plan=(*standing.plan[-_PLAN + 1 :], (first, 1 / apart)),
        used=standing.used + count,
        spent=standing.spent + begin - first,
    )
    return reserved, put_off


def _draw(standing: HostRate, policy: RatePolicy) -> float:
    if policy.delay is None:
        return gap(standing, policy)
    return max(random.uniform(*policy.delay), standing.crawl_delay)  # noqa: S311


def fold(standing: HostRate, tally: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    """What is known once these answers are."""
    standing = msgspec.structs.replace(
        standing,
        crawl_delay=tally.crawl_delay or standing.crawl_delay,
        answers=standing.answers + tally.passed + tally.refused,
        refusals=standing.refusals + tally.refused,
    )
    if tally.passed:
        standing = _climbed(standing, tally.passed, now, policy)
    if tally.refused:
        standing = msgspec.structs.replace(standing, last_refusal=now, last_status=tally.status)
        if tally.sent >= standing.lowered_at:
            standing = _lowered(standing, tally, now, policy)
        elif tally.sent > standing.since:
            standing = msgspec.structs.replace(standing, refused=standing.refused + tally.refused)
        standing = _closed(standing, tally.closed_until, f"it answered {tally.status} and asked to be left alone", now)
    return standing


# Up


def _climbed(standing: HostRate, passed: int, now: float, policy: RatePolicy) -> HostRate:
    rate, overshot = standing.rate, standing.overshot
    counted = passed if standing.pressed else 0
    doublings = min(max(now - standing.grown_at, 0.0), counted / ANSWERS_TO_DOUBLE)
    if standing.ceiling:
        goal = tooth(standing.ceiling, standing.width, standing.passed + counted)
        rate = max(rate, min(rate * 2 ** (doublings / SLOW), goal))
    else:
        slow = overshot and rate >= SLOW_FROM * overshot
        rate *= 2 ** (doublings / SLOW if slow else doublings)
        if rate > _LIFTED * overshot:
            overshot = 0.0
    return msgspec.structs.replace(
        standing,
        rate=min(max(rate, policy.slowest), policy.fastest),
        overshot=overshot,
        passed=standing.passed + counted,
        grown_at=now,
        rounds=0,
    )


# Down


def _lowered(standing: HostRate, tally: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    if not tally.hard:
        lowered = _slower(standing, standing.rate / 2, now, policy)
    elif standing.overshot and _counted(standing, tally)[1] < _TOO_FEW:
        lowered = msgspec.structs.replace(standing, refused=standing.refused + tally.refused)
    else:
        lowered = _begun_anew(standing, _measured(standing, tally), tally, now, policy)
    rounds = standing.rounds + 1
    lowered = msgspec.structs.replace(lowered, rounds=rounds)
    if rounds < _ROUNDS_TO_CLOSE:
        return lowered
    seconds = min(_FIRST_CLOSURE * 2 ** (rounds - _ROUNDS_TO_CLOSE), _LONGEST_CLOSURE)
    return _closed(lowered, now + seconds, f"it answered {tally.status}, and {rounds} times in a row refused", now)


def _slower(standing: HostRate, rate: float, now: float, policy: RatePolicy) -> HostRate:
    rate = max(rate, policy.slowest)
    return msgspec.structs.replace(
        standing,
        rate=rate,
        next=max(standing.next, now + max(1 / rate, standing.crawl_delay)),
        lowered_at=max(standing.next, now) + _GRACE_SECONDS,
        voided_at=now,
        grown_at=now,
    )


def _begun_anew(standing: HostRate, learned: HostRate, tally: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    """A new climb, which begins with the slots that are handed out already, or, where they are void, after them."""
    rate = max(learned.rate, policy.slowest)
    begun = msgspec.structs.replace(
        learned,
        rate=rate,
        since=tally.sent,
        used=_counted(standing, tally)[3],
        spent=max(standing.next - tally.sent, 0.0),
        lowered_at=max(standing.next, now) + _GRACE_SECONDS,
        grown_at=now,
    )
    if rate >= _TOO_FAST * standing.rate and forgiving(learned):
        return begun
    after = max(now + max(1 / rate, standing.crawl_delay), min(standing.next, now + _CLEARING_SECONDS))
    return msgspec.structs.replace(
        begun, next=after, plan=(), since=begun.lowered_at, used=0.0, spent=after - now, voided_at=now
    )


def _counted(standing: HostRate, tally: AnswerCounts) -> tuple[float, float, float, float]:
    """The rate by which the refused request was spaced, the slots until then, their seconds, and the slots after."""
    rate, after, end = standing.rate, 0.0, standing.next
    for begin, spacing in reversed(standing.plan):
        rate = spacing
        after += max(end - max(begin, tally.sent), 0.0) * spacing
        end = begin
        if begin + 0.9 / spacing <= tally.sent:  # the first slot of a reservation was spaced by the one before
            break
    return rate, standing.used - after, max(standing.spent - max(standing.next - tally.sent, 0.0), 1e-3), after


def _measured(standing: HostRate, tally: AnswerCounts) -> HostRate:
    """The ceiling and the rate after a refusal that is meant as one."""
    rate, used, spent, _ = _counted(standing, tally)
    ceiling, overshot, width = standing.ceiling, standing.overshot, standing.width
    mean = min(max((used - standing.refused) / spent, rate / (2 if used < _FEW else 16)), rate)
    if not overshot:
        # How much of this was the burst? The more passed, the more it may have been. Below the limit is where to begin.
        begin = min(max(mean / min(3.0, 2.0 + standing.passed / 28), rate / 16), rate / 2)
        overshot = before_the_step(rate)
    elif not ceiling:
        first = partial(spilled, overshot, gentleness=1.0)
        second = partial(spilled_twice, rate, SLOW_FROM * overshot)
        limit = agreed(second, first, mean, rate)
        ceiling = _BELOW_REFUSED * rate if first(limit) < _NO_BURST else min(limit, _BELOW_REFUSED * rate)
        width = _WIDEST if ceiling >= _FEW_A_SECOND else _WIDEST_WHEN_FEW
        begin = (1 - width) * ceiling
    else:
        first = partial(spilled, overshot, gentleness=1.0)
        last = partial(spilled_on_tooth, rate, ceiling=ceiling, width=width)
        limit = agreed(last, lambda level: _FIRST_COUNTS * first(level), mean, rate)
        doubt = 0.5 / used
        if last(mean) > _CERTAIN * first(mean):
            doubt = max(doubt, (rate / mean - 1) / 8)
        if abs(limit / ceiling - 1) < width:
            doubt = min(doubt, width / 2)
        ceiling, width = _BELOW_MEASURED * limit, min(max(doubt, _NARROWEST), _WIDEST)
        begin = (1 - width) * limit
    return msgspec.structs.replace(
        standing,
        rate=begin,
        ceiling=ceiling,
        overshot=overshot,
        burst=spilled(overshot, ceiling, 1.0) if ceiling else 0.0,
        width=width,
        passed=0,
        refused=0,
    )


def _closed(standing: HostRate, until: float, why: str, now: float) -> HostRate:
    if until <= max(standing.closed_until, now):
        return standing
    return msgspec.structs.replace(standing, closed_until=until, why=why, next=max(standing.next, until))
