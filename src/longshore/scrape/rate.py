"""The rate of one host: how it is learned from answers. Pure: what is known and what happened make what is known next.

How it is learned
    A site lets through so many requests a second, and a burst on top of them when it was left alone for a while.
    Neither is known. The rate climbs while answers are good, and every refusal is a measurement:

    - What passed since the refusal before, by the time since then, is never more than the site allows, for it had
      nothing to give when it refused. Where its burst is large, that is the limit itself.
    - Where the burst is small, the rate at the moment of the refusal is the limit, a little overshot. How far a climb
      overshoots goes with the root of its steepness, so two climbs of different steepness tell where one of no
      steepness at all would have ended.

    The greater of the two is the ceiling. So there are three climbs: a fast one until the first refusal, a slow one
    until the second, and from then on the rate stays just below the ceiling, and creeps above it now and then, in case
    the site allows more by now. One that does is climbed fast again.

    A climb is counted in answers where they are few and in seconds where they are many, and only while the rate is what
    holds requests back: nothing is learned from a rate that nobody uses.

Refusals
    429 and whatever comes with Retry-After are refusals. 403 and 503 may have other reasons, so they halve the rate and
    leave the ceiling: it is soon reached again if that was all. Requests that were under way when the rate was lowered
    do not lower it again. A host that refuses and refuses is closed for a while, and each time for longer.
"""

from __future__ import annotations

import math
import random

import msgspec

ANSWERS_TO_DOUBLE = 5.0
"""The fast climb doubles the rate with so many answers, but not within less than a second."""
SLOW, CREEP = 3.0, 48.0
"""How many times less steep the slow climb and the creeping are."""
_SLOW_FROM = 0.6
"""From which share of the rate that was refused first the climb is slow."""
_LIFTED = 1.5
"""So far above the ceiling without a refusal, and it is none any more."""
_SAFE, _CRUISE = 0.98, 0.99
"""Shares of the ceiling: where the rate begins after a refusal, and where it stays."""
_HOLD_SECONDS, _HOLD_ANSWERS = 30.0, 400.0
"""How long it stays there, whichever is longer, before it creeps on: each attempt costs a refusal."""
_TOO_FEW = 3
"""So few answers since the last refusal measure nothing."""
_ENOUGH = 10
"""So many are worth relying on for a while."""
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


class Policy(msgspec.Struct, frozen=True, kw_only=True):
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


class Tally(msgspec.Struct, kw_only=True):
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


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a host, as all who ask it share it. Instants are seconds since 1970 by the clock they share."""

    rate: float
    ceiling: float = 0.0
    """What the host seems to allow; 0 while that is unknown."""
    overshot: float = 0.0
    """The rate at which the climb before this one was refused; 0 before the first refusal."""
    burst: float = 0.0
    """How many the host seems to let through at once beyond the ceiling, when it was left alone; 0 where unknown."""
    since: float
    """When the host last had nothing to give; before the first refusal, when it was first asked."""
    passed: int = 0
    """What passed since then."""
    grown_at: float
    lowered_at: float = 0.0
    """From when on requests are sent at the rate to which it was last lowered."""
    hold_until: float = 0.0
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
    spaced: tuple[float, float] = (0.0, 0.0)
    """The rates of the last two reservations: requests on their way were spaced by the first of them."""


def unknown(now: float, policy: Policy) -> Standing:
    """A host that was never asked."""
    return Standing(rate=policy.first, since=now, grown_at=now)


def worth_keeping(standing: Standing, now: float) -> bool:
    """Whether anything would be lost if it were forgotten: a host that is not known is asked slowly at first."""
    last = max(standing.next, standing.closed_until, standing.grown_at)
    return now - last < (_KEPT_SECONDS if standing.refusals else _KEPT_UNREFUSED_SECONDS)


def gap(standing: Standing, policy: Policy) -> float:
    """The seconds between two requests; where they are drawn, the mean."""
    if policy.delay is not None:
        return max(sum(policy.delay) / 2, standing.crawl_delay)
    return max(1 / standing.rate, standing.crawl_delay)


def slack(standing: Standing, policy: Policy) -> float:
    """How many seconds late a slot may be used as if nothing had happened.

    A site that allows a burst has kept what was not asked of it meanwhile: the half of that is safe to ask for. One
    that allows none has not.
    """
    if policy.delay is not None or standing.crawl_delay or standing.burst < _WORTH_CATCHING_UP:
        return 0.0
    return min(standing.burst / 2 / standing.rate, _LONGEST_SLACK)


def reserve(
    standing: Standing, now: float, count: int, policy: Policy, waiting_since: float | None = None
) -> tuple[Standing, list[float]]:
    """Take so many slots, the next that are free: the instants at which requests may be sent.

    What somebody has waited for since then (by default: now) may be handed out a little late, by the slack.
    """
    since = now if waiting_since is None else waiting_since
    begin = max(standing.next, standing.closed_until, min(max(since, now - slack(standing, policy)), now))
    pressed = standing.next >= min(since, now) - gap(standing, policy) / 2
    instants = []
    for _ in range(count):
        instants.append(begin)
        begin += _draw(standing, policy)
    apart = gap(standing, policy)
    put_off = [instant + random.uniform(0, policy.jitter) * apart for instant in instants]  # noqa: S311
    slots = standing.slots + count
    spaced = (standing.spaced[1], standing.rate)
    return msgspec.structs.replace(standing, next=begin, pressed=pressed, slots=slots, spaced=spaced), put_off


def _draw(standing: Standing, policy: Policy) -> float:
    if policy.delay is None:
        return gap(standing, policy)
    return max(random.uniform(*policy.delay), standing.crawl_delay)  # noqa: S311


def fold(standing: Standing, tally: Tally, now: float, policy: Policy) -> Standing:
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
        standing = _closed(standing, tally.closed_until, f"it answered {tally.status} and asked to be left alone", now)
    return standing


# Up


def _climbed(standing: Standing, passed: int, now: float, policy: Policy) -> Standing:
    rate, ceiling, overshot, burst = standing.rate, standing.ceiling, standing.overshot, standing.burst
    doublings = min(max(now - standing.grown_at, 0.0), passed / ANSWERS_TO_DOUBLE) if standing.pressed else 0.0
    if not ceiling:
        slow = overshot and rate >= _SLOW_FROM * overshot
        rate *= 2 ** (doublings / SLOW if slow else doublings)
        if rate > _LIFTED * overshot:
            overshot = 0.0
    elif rate < _SAFE * ceiling:
        rate = min(rate * 2 ** (doublings / SLOW), _SAFE * ceiling)
    elif rate < _CRUISE * ceiling or now >= standing.hold_until:
        rate *= 2 ** (doublings / CREEP)
        if rate > _LIFTED * ceiling:
            ceiling = overshot = burst = 0.0
    return msgspec.structs.replace(
        standing,
        rate=min(max(rate, policy.slowest), policy.fastest),
        ceiling=ceiling,
        overshot=overshot,
        burst=burst,
        passed=standing.passed + passed,
        grown_at=now,
        rounds=0,
    )


# Down


def _lowered(standing: Standing, tally: Tally, now: float, policy: Policy) -> Standing:
    learned = _measured(standing, now) if tally.hard else msgspec.structs.replace(standing, rate=standing.rate / 2)
    rate = max(learned.rate, policy.slowest)
    rounds = standing.rounds + 1
    lowered = msgspec.structs.replace(
        learned,
        rate=rate,
        # Other processes have slots of the old rate: they come first, and what becomes of them says nothing of the new.
        next=max(standing.next, now + max(1 / rate, standing.crawl_delay)),
        lowered_at=max(standing.next, now),
        spaced=(rate, rate),
        grown_at=now,
        rounds=rounds,
    )
    if rounds < _ROUNDS_TO_CLOSE:
        return lowered
    seconds = min(_FIRST_CLOSURE * 2 ** (rounds - _ROUNDS_TO_CLOSE), _LONGEST_CLOSURE)
    return _closed(lowered, now + seconds, f"it answered {tally.status}, and {rounds} times in a row refused", now)


def _measured(standing: Standing, now: float) -> Standing:
    """The ceiling and the rate after a refusal that is meant as one."""
    rate = min(standing.spaced[0] or standing.rate, standing.rate)
    ceiling, overshot, burst, hold = standing.ceiling, standing.overshot, standing.burst, 0.0
    mean = standing.passed / max(now - standing.since, 1e-3)
    if ceiling:
        if standing.passed < _TOO_FEW:
            ceiling = 0.7 * rate
        else:
            ceiling = min(max(mean, _level(rate, overshot, CREEP / SLOW), 0.7 * rate), rate)
            # A great fall that a handful of answers are to blame for may be a mistake, which waiting would not mend.
            if standing.passed >= _ENOUGH or ceiling > 0.9 * rate:
                hold = max(_HOLD_SECONDS, _HOLD_ANSWERS / rate)
        begin = _SAFE * ceiling
    elif not overshot:
        # How much of this was the burst? The more passed, the more it may have been. Below the limit is where to begin.
        overshot = _before_the_step(rate, 1.0, 1.0)
        begin = min(max(mean / min(3.0, 2.0 + standing.passed / 28), rate / 16), rate / 2)
    elif standing.passed < _TOO_FEW:
        begin = 0.7 * rate
    else:
        ceiling = min(max(mean, _level(_before_the_step(rate, SLOW, 0.5), overshot, SLOW)), 0.97 * rate)
        burst = _burst(overshot, ceiling)
        overshot = _before_the_step(rate, SLOW, 1.0)
        begin = _SAFE * ceiling
    return msgspec.structs.replace(
        standing,
        rate=begin,
        ceiling=ceiling,
        overshot=overshot,
        burst=burst,
        hold_until=now + hold,
        since=now,
        passed=0,
    )


def _level(flat: float, steep: float, times: float) -> float:
    """Where a climb of no steepness is refused, if one was at `flat`, and one so many times as steep at `steep`."""
    root = math.sqrt(times)
    return (root * flat - steep) / (root - 1)


def _burst(climbed_to: float, ceiling: float) -> float:
    """What came through beyond the ceiling while the fast climb went on from there."""
    times = max(climbed_to / ceiling, 1.0)
    doublings = math.log2(times)
    by_answers = ANSWERS_TO_DOUBLE * (doublings - (1 - 1 / times) / math.log(2))
    by_seconds = ceiling * ((times - 1) / math.log(2) - doublings)
    return max(by_answers, by_seconds)


def _before_the_step(rate: float, gentleness: float, share: float) -> float:
    """A rate from the middle of the step that was refused: at low rates each answer is a large one."""
    return rate / 2 ** (share * min(1 / rate, 1 / ANSWERS_TO_DOUBLE) / gentleness / 2)


def _closed(standing: Standing, until: float, why: str, now: float) -> Standing:
    if until <= max(standing.closed_until, now):
        return standing
    return msgspec.structs.replace(standing, closed_until=until, why=why, next=max(standing.next, until))
