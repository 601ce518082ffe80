"""How long attempts take: what was seen of it, and how much longer the longest may be.

Short attempts end first. So of those under way it counts that they are longer than they have been (Kaplan and Meier):
otherwise a run that has just begun would seem to have short jobs only. And the longest of many attempts is longer than
the longest of the few that were seen: above a threshold, lengths are drawn from a tail that is fitted to them. Two
sorts of tails are common, those of a lognormal distribution and the heavier ones of a power law. Few attempts do not
tell one from the other, so each is drawn as often as it is likely; and as few do not tell how heavy a tail is either,
that is drawn anew for each play.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from statistics import NormalDist, fmean

_TAIL = 0.2
"""The share of attempts, the longest, that are the tail."""
_SAMPLE = 200
_STRATA = 24
_BEYOND = 15.0
_FAR = 3.5
"""So many times as long as the longest that was seen, or so many deviations above the middle, and no longer, is any
drawn: there are timeouts."""
_USUAL = 100
_DOUBT, _SUPPOSED = 3.0, 1.1
"""So many attempts the assumption weighs that a power law is so heavy, as a share of the spread of all lengths."""
_FEW, _USUAL_SPREAD, _LEAST_SPREAD = 2.5, 0.7, 0.02
"""So many attempts the assumption weighs that lengths differ as they usually do: the deviation of their logarithm."""
_RARER, _NEVER_SURE = 2.0, 0.05
"""By how much lognormal tails are the more common ones, before anything is seen: the logarithm of the odds; and how
likely either is at least, whatever was seen."""
_HEAVIEST = 0.9
"""No power law is drawn heavier than this, unless what was seen is: beyond 1 there would be no mean, and the longest
job would be all of the run."""
_WIDER = 2.2
"""So many times as far as they seem to, and no further, are lengths drawn to differ."""
_NORMAL = NormalDist()


class Durations:
    """What is known of how long attempts take."""

    def __init__(self, seconds: Sequence[float], ages: Sequence[float]) -> None:
        """`seconds` are what attempts took, at least one; `ages` for how long others have been under way."""
        self._body, self._weights, self._share = _body(seconds, ages)
        ended = sorted(max(each, 1e-3) for each in seconds)
        begun = [each for each in ages if each > 0]
        # Of those under way little is known yet.
        self._known = len(ended) ** 2 / (len(ended) + len(begun))
        self._middle, self._spread = _lognormal(ended, begun)
        self._longest = max(ended[-1], max(begun, default=0.0))
        self._threshold = self._body[-1]
        over = [math.log(each / self._threshold) for each in ended if each > self._threshold]
        under_way = [math.log(each / self._threshold) for each in begun if each > self._threshold]
        # How heavy a power law is: the mean logarithm of what is longer, where some are not through yet (Hill).
        supposed = _SUPPOSED * self._spread
        self._counted = len(over) + _DOUBT
        self._power = (sum(over) + sum(under_way) + _DOUBT * supposed) / self._counted
        self._heavy = self._likeliness(over, under_way)

    @property
    def mean(self) -> float:
        """What an attempt takes on average, going by what is most likely."""
        tail = _Lognormal(self._threshold, self._middle, self._spread)
        below = fmean(self._body, self._weights)
        return (1 - self._share) * below + self._share * _mean_beyond(tail, self._most(tail), _USUAL)

    def _most(self, tail: _Lognormal) -> float:
        """What nothing is longer than, if lengths are so."""
        return max(_BEYOND * self._longest, tail.deviating(_FAR))

    def _likeliness(self, over: Sequence[float], under_way: Sequence[float]) -> float:
        """How likely the tail is that of a power law, rather than a lognormal one."""
        start = (math.log(self._threshold) - self._middle) / self._spread
        left = max(_survival(start), 1e-12)
        odds = -_RARER
        for each in over:
            place = start + each / self._spread
            odds -= each / self._power + math.log(self._power)
            odds -= math.log(max(_NORMAL.pdf(place), 1e-300) / self._spread / left)
        for each in under_way:
            odds -= each / self._power + math.log(max(_survival(start + each / self._spread), 1e-300) / left)
        return _NEVER_SURE + (1 - 2 * _NEVER_SURE) / (1 + math.exp(-max(min(odds, 30.0), -30.0)))

    def play(self, chance: random.Random) -> DrawnDuration:
        """Lengths as they may be: which were met is chance too."""
        body = chance.choices(self._body, self._weights, k=min(len(self._body), _SAMPLE))
        power = self._power * self._counted / chance.gammavariate(self._counted, 1.0)
        known = self._known + 1
        spread = self._spread * min(math.sqrt(known / (2 * chance.gammavariate(known / 2, 1.0))), _WIDER)
        middle = self._middle + spread * chance.gauss(0.0, 1.0) / math.sqrt(known)
        lognormal = _Lognormal(self._threshold, middle, max(spread, _LEAST_SPREAD))
        heavy = chance.random() < self._heavy
        tail = _PowerLaw(self._threshold, min(power, max(self._power, _HEAVIEST), 3.0)) if heavy else lognormal
        return DrawnDuration(chance, body, tail, self._share, self._most(lognormal))


class DrawnDuration:
    """How long attempts take, in one play."""

    def __init__(self, chance: random.Random, body: list[float], tail: _Tail, share: float, most: float) -> None:
        self._chance = chance
        self._tail = tail
        self._share = share
        self._most = most
        self._body = sorted(body)
        self._sums = list(accumulate(self._body))

    def any(self) -> float:
        """Of an attempt that begins."""
        if self._chance.random() < self._share:
            return self._beyond(self._chance.random())
        return self._chance.choice(self._body)

    def mean(self, number: int) -> float:
        """Of so many attempts."""
        tail = _mean_beyond(self._tail, self._most, max(number, 1) * self._share)
        return (1 - self._share) * self._sums[-1] / len(self._body) + self._share * tail

    def longest(self, number: int) -> float:
        """Of so many attempts, the longest."""
        left = -math.expm1(math.log(self._chance.random() or 1e-300) / number)
        if left < self._share:
            return self._beyond(max(left, 1e-300) / self._share)
        return self._body[min(int((1 - left) / (1 - self._share) * len(self._body)), len(self._body) - 1)]

    def rest(self, age: float) -> float:
        """What is left of an attempt that has been under way for so long."""
        if age < self._tail.threshold:
            place = bisect_right(self._body, age)
            longer = (len(self._body) - place) / len(self._body) * (1 - self._share)
            if self._chance.random() * (longer + self._share) < longer:
                return self._chance.choice(self._body[place:]) - age
            return self._beyond(self._chance.random()) - age
        # An attempt that is older than all that can be drawn may end any time, and takes half as long again at most.
        most = max(self._most, 1.5 * age)
        return min(self._tail.at(self._tail.left(age) * (self._chance.random() or 1e-300)), most) - age

    def rest_of_any(self, age: float) -> float:
        """What is left of an attempt that is met under way, of which no more is known than that it is so old."""
        # Long attempts are met under way more often than short ones.
        whole = max(self._by_length(), 1e-3)
        met = whole * self._chance.random()
        return self.rest(max(age, met)) if age else whole - met

    def _by_length(self) -> float:
        below = (1 - self._share) * self._sums[-1] / len(self._body)
        lengths, sums = self._tail_by_length
        beyond = self._share * sums[-1]
        if self._chance.random() * (below + beyond) < beyond:
            return lengths[bisect_left(sums, self._chance.random() * sums[-1])]
        return self._body[bisect_left(self._sums, self._chance.random() * self._sums[-1])]

    @cached_property
    def _tail_by_length(self) -> tuple[list[float], list[float]]:
        """Some of the tail, and the sums of the time they take up, each by how many there are of it."""
        strata = _strata(self._tail, self._most, _USUAL)
        return [length for _, length in strata], list(accumulate(share * length for share, length in strata))

    def _beyond(self, left: float) -> float:
        return min(self._tail.at(left or 1e-300), self._most)


class _PowerLaw:
    """Of all that are longer than the threshold, a share of `left` is longer than threshold ÷ left ** power."""

    def __init__(self, threshold: float, power: float) -> None:
        self.threshold = threshold
        self._power = max(power, 1e-6)

    def at(self, left: float) -> float:
        return self.threshold * math.exp(min(-math.log(left) * self._power, 50.0))

    def left(self, length: float) -> float:
        return math.exp(math.log(self.threshold / length) / self._power)


class _Lognormal:
    """What a lognormal distribution has above the threshold."""

    def __init__(self, threshold: float, middle: float, spread: float) -> None:
        self.threshold = threshold
        self._middle, self._spread = middle, spread
        self._above = max(_survival((math.log(threshold) - middle) / spread), 1e-12)

    def at(self, left: float) -> float:
        share = min(max(left * self._above, 1e-300), 1 - 1e-12)
        return max(math.exp(min(self._middle - self._spread * _NORMAL.inv_cdf(share), 50.0)), self.threshold)

    def deviating(self, far: float) -> float:
        """What is so many deviations above the middle."""
        return math.exp(min(self._middle + far * self._spread, 50.0))

    def left(self, length: float) -> float:
        return min(_survival((math.log(length) - self._middle) / self._spread) / self._above, 1.0)


_Tail = _PowerLaw | _Lognormal


def _survival(place: float) -> float:
    return math.erfc(place / math.sqrt(2)) / 2


def _mean_beyond(tail: _Tail, most: float, number: float) -> float:
    """The mean of so many of the tail."""
    return sum(share * length for share, length in _strata(tail, most, number))


def _strata(tail: _Tail, most: float, number: float) -> list[tuple[float, float]]:
    """So many of the tail, in strata that get narrower and narrower down to the longest: how many are how long."""
    least = 1 / (number + 1)
    edges = [*(least ** (step / _STRATA) for step in range(_STRATA + 1)), 0.0]
    return [(wide - narrow, min(tail.at((wide + narrow) / 2), most)) for wide, narrow in pairwise(edges)]


def _body(seconds: Sequence[float], ages: Sequence[float]) -> tuple[list[float], list[float], float]:
    """All lengths but those of the tail, in order, and how likely each is; and how likely the tail is.

    The likelihood of each that is still under way is shared among all that were longer (Kaplan and Meier). What is left
    for those that are longer than all that ended is the tail, too.
    """
    known = sorted([(max(each, 1e-3), True) for each in seconds] + [(each, False) for each in ages])
    lengths, weights, left = list[float](), list[float](), 1.0
    for place, (length, ended) in enumerate(known):
        if ended:
            lengths.append(length)
            weights.append(left / (len(known) - place))
            left -= weights[-1]
        if lengths and left <= _TAIL:
            break
    return lengths, weights, max(left, _TAIL / 4)


def _lognormal(ended: Sequence[float], under_way: Sequence[float]) -> tuple[float, float]:
    """The middle and the spread of the logarithms, most likely, where some are only known to be longer than that."""
    logs, ages = [math.log(each) for each in ended], [math.log(each) for each in under_way]
    middle = fmean(logs)
    # One length alone has no spread: supposed is some, which many outweigh.
    spread = math.sqrt((sum((each - middle) ** 2 for each in logs) + _FEW * _USUAL_SPREAD**2) / (len(logs) + _FEW))
    for _ in range(25 if ages else 0):
        first = second = 0.0
        for age in ages:
            place = (age - middle) / spread
            hazard = _NORMAL.pdf(place) / max(_survival(place), 1e-12) if place < 6 else place
            first += middle + spread * hazard
            second += middle**2 + spread**2 + spread * hazard * (middle + age)
        number = len(logs) + len(ages)
        new = (sum(logs) + first) / number
        squares = sum(each**2 for each in logs) + second + _FEW * (_USUAL_SPREAD**2 + new**2)
        middle, spread = new, math.sqrt(max(squares / (number + _FEW) - new**2, _LEAST_SPREAD**2))
    return middle, max(spread, _LEAST_SPREAD)
