"""How the rate of a host climbs, and what a refusal at the end of a climb tells. Pure numbers.

A site lets `limit` requests a second through, and has saved up a burst when it was asked for less. Neither is known.
A climb that is refused at some rate has used up what was saved: all that was asked beyond the limit since the rate rose
above it. So every refusal is a line of possible limits, each with its burst: a high limit with a small burst is refused
at the same rate as a low one with a large. Two climbs of different steepness used up the same burst, and so there is
one limit that explains both.

Three climbs follow one another:

- Fast: the rate doubles with every few answers, until the first refusal.
- Slow: the same again from below, less steep near where the first one ended.
- Teeth: from a little below the supposed limit the rate rises fast at first, hardly at all near the limit, and then
  faster and faster, as far as it takes. A tooth begins with nothing saved and is so short that little can be saved on
  its way, so that what it got through until its refusal, by the time it took, is the limit itself. The better the limit
  is known, the longer and flatter are the teeth: each costs a refusal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

ANSWERS_TO_DOUBLE = 5.0
"""The fast climb doubles the rate with so many answers, but not within less than a second."""
SLOW = 3.0
"""How many times less steep the slow climb is."""
SLOW_FROM = 0.6
"""From which share of the rate that was refused first the second climb is slow."""

_SAVED_ON_A_TOOTH = 1.0
"""How much a site may save up while a tooth is below its limit, in requests."""
_MANY_A_SECOND = 20.0
"""From this rate on teeth are counted in seconds rather than in answers."""
_STEPS = 50


def spilled(climbed_to: float, limit: float, gentleness: float) -> float:
    """What came through beyond the limit on a climb so many times less steep than the fast one, up to that rate."""
    times = max(climbed_to / limit, 1.0)
    doublings = math.log2(times)
    by_answers = ANSWERS_TO_DOUBLE * (doublings - (1 - 1 / times) / math.log(2))
    by_seconds = limit * ((times - 1) / math.log(2) - doublings)
    return gentleness * max(by_answers, by_seconds)


def spilled_twice(climbed_to: float, slow_from: float, limit: float) -> float:
    """The same for a climb that is fast at first, and slow from some rate on."""
    slow_from = min(slow_from, climbed_to)
    slowly = spilled(climbed_to, limit, SLOW) - spilled(slow_from, limit, SLOW)
    return spilled(slow_from, limit, 1.0) + slowly


def tooth(ceiling: float, width: float, passed: int) -> float:
    """The rate after so many answers on a tooth that begins by `width`, a share of the ceiling, below it."""
    return ceiling * (1 + width * (passed / _half(ceiling, width) - 1) ** 3)


def spilled_on_tooth(climbed_to: float, limit: float, ceiling: float, width: float) -> float:
    """What came through beyond the limit on a tooth, up to that rate."""
    begin, end = max(_place(limit, ceiling, width), -1.0), _place(climbed_to, ceiling, width)
    if end <= begin:
        return 0.0
    places = (begin + (end - begin) * (step + 0.5) / _STEPS for step in range(_STEPS))
    beyond = sum(1 - limit / (ceiling * (1 + width * place**3)) for place in places)
    return max(beyond, 0.0) * (end - begin) / _STEPS * _half(ceiling, width)


def agreed(one: Callable[[float], float], other: Callable[[float], float], low: float, high: float) -> float:
    """The limit between these by which both climbs spilled the same; the lowest, where the first spilled less anyway:
    then it began with nothing saved and filled no burst, and the lowest is what came through."""
    if one(low) <= other(low):
        return low
    for _ in range(20):
        middle = (low + high) / 2
        if one(middle) > other(middle):
            low = middle
        else:
            high = middle
    return low


def before_the_step(rate: float) -> float:
    """A rate from the middle of the step that the fast climb was refused on: at low rates it is a large one."""
    return rate / 2 ** (min(1 / rate, 1 / ANSWERS_TO_DOUBLE) / 2)


def _half(ceiling: float, width: float) -> float:
    """How many answers a tooth takes until it is at the ceiling."""
    return 4 * _SAVED_ON_A_TOOTH / width * max(1.0, ceiling / _MANY_A_SECOND)


def _place(rate: float, ceiling: float, width: float) -> float:
    """Where on a tooth that rate is: -1 at its beginning, 0 at the ceiling."""
    return math.cbrt((rate / ceiling - 1) / width)
