"""The model of a host's rate limit: how the rate rises, and what a refusal tells about the limit. Pure numbers.

The model is a token bucket: a host lets `limit` requests a second through, and a burst on top if it was asked for less
before. Neither number is known. A ramp of the rate that ends in a refusal has used up the burst: the requests beyond
the limit since the rate rose above it, here called the overshoot. One refusal alone fits many pairs of limit and burst:
a high limit with a small burst refuses at the same rate as a low limit with a large burst. But two ramps of different
steepness used up the same burst, so only one limit explains both.

Three ramps follow one another:

- Fast: the rate doubles with every few answers, until the first refusal.
- Slow: the same from a lower rate, but less steep near the rate at which the fast ramp ended.
- Probes: each starts a little below the estimated limit, rises fast at first, hardly at all near the limit, and then
  faster and faster until the next refusal (the curve of TCP CUBIC). A probe starts with an empty bucket and is so short
  that the bucket hardly fills on the way, so the requests let through, divided by their time, are the limit itself. The
  better the limit is known, the longer and flatter are the probes, because each costs a refusal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

ANSWERS_TO_DOUBLE = 5.0
"""Answers with which the fast ramp doubles the rate; a doubling takes at least a second."""
SLOW_FACTOR = 3.0
"""How many times less steep the slow ramp is than the fast one."""
SLOW_FROM = 0.6
"""The share of the rate that was refused first from which the second ramp is slow."""

_SAVED_DURING_PROBE = 1.0
"""Requests that a host may save up in its bucket while a probe is below the limit."""
_MANY_PER_SECOND = 20.0
"""From this rate on, the length of a probe is fixed in seconds rather than in answers."""
_STEPS = 50


def overshoot(final_rate: float, limit: float, slowness: float) -> float:
    """Return the requests beyond `limit` on a ramp to `final_rate`, `slowness` times less steep than the fast one."""
    times = max(final_rate / limit, 1.0)
    doublings = math.log2(times)
    by_answers = ANSWERS_TO_DOUBLE * (doublings - (1 - 1 / times) / math.log(2))
    by_seconds = limit * ((times - 1) / math.log(2) - doublings)
    return slowness * max(by_answers, by_seconds)


def slow_ramp_overshoot(final_rate: float, slow_from: float, limit: float) -> float:
    """Return the overshoot of a ramp that is fast at first, and slow from the rate `slow_from` on."""
    slow_from = min(slow_from, final_rate)
    slow_part = overshoot(final_rate, limit, SLOW_FACTOR) - overshoot(slow_from, limit, SLOW_FACTOR)
    return overshoot(slow_from, limit, 1.0) + slow_part


def probe_rate(ceiling: float, width: float, passed: int) -> float:
    """Return the rate of a probe after `passed` answers; it starts below the ceiling by the share `width` of it."""
    return ceiling * (1 + width * (passed / _answers_to_ceiling(ceiling, width) - 1) ** 3)


def probe_overshoot(final_rate: float, limit: float, ceiling: float, width: float) -> float:
    """Return the requests beyond `limit` on a probe up to `final_rate`."""
    begin, end = max(_position(limit, ceiling, width), -1.0), _position(final_rate, ceiling, width)
    if end <= begin:
        return 0.0
    positions = (begin + (end - begin) * (step + 0.5) / _STEPS for step in range(_STEPS))
    beyond = sum(1 - limit / (ceiling * (1 + width * position**3)) for position in positions)
    return max(beyond, 0.0) * (end - begin) / _STEPS * _answers_to_ceiling(ceiling, width)


def limit_explaining_both(
    one: Callable[[float], float], other: Callable[[float], float], low: float, high: float
) -> float:
    """Return the limit between `low` and `high` for which both ramps have the same overshoot.

    Return `low` if the first ramp has the smaller overshoot there: then it started with an empty bucket and never
    filled it, and `low` is the rate that was let through.
    """
    if one(low) <= other(low):
        return low
    for _ in range(20):
        middle = (low + high) / 2
        if one(middle) > other(middle):
            low = middle
        else:
            high = middle
    return low


def middle_of_last_step(rate: float) -> float:
    """Return the middle of the step on which the fast ramp was refused at `rate`: at low rates steps are large."""
    return rate / 2 ** (min(1 / rate, 1 / ANSWERS_TO_DOUBLE) / 2)


def _answers_to_ceiling(ceiling: float, width: float) -> float:
    """Return after how many answers a probe reaches the ceiling."""
    return 4 * _SAVED_DURING_PROBE / width * max(1.0, ceiling / _MANY_PER_SECOND)


def _position(rate: float, ceiling: float, width: float) -> float:
    """Return where on a probe `rate` is: -1 at its start, 0 at the ceiling."""
    return math.cbrt((rate / ceiling - 1) / width)
