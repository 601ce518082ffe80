"""The distribution of the durations of attempts, including durations longer than any observed one.

Short attempts end first. So an attempt in flight counts as one that is longer than its age (Kaplan-Meier); otherwise a
run that has just started would seem to have only short jobs. And the longest of many attempts is longer than the
longest of the few observed ones: above a threshold, durations are drawn from a fitted tail. Two sorts of tails are
common, that of a lognormal distribution and the heavier one of a power law. A few attempts do not tell one from the
other, so each is used as often as it is probable; and since a few attempts do not tell how heavy a tail is either, its
parameter is drawn for each simulation.
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
"""The share of attempts, the longest ones, that form the tail."""
_SAMPLE = 200
_STRATA = 24
_BEYOND = 15.0
_FAR = 3.5
"""The longest duration that is drawn, because there are timeouts: the longer one of `_BEYOND` times the longest
observed duration, and `_FAR` standard deviations above the mean of the logarithms."""
_USUAL = 100
"""Number of attempts in the tail that a mean without a given number assumes."""
_DOUBT, _SUPPOSED = 3.0, 1.1
"""Prior for a power law: its weight in attempts, and its exponent as a share of the sigma of all durations."""
_FEW, _USUAL_SPREAD, _LEAST_SPREAD = 2.5, 0.7, 0.02
"""Prior for the spread of durations: its weight in attempts, the standard deviation of the logarithm, and the smallest
one."""
_RARER, _NEVER_SURE = 2.0, 0.05
"""Prior for the sort of tail: the logarithm of the odds for lognormal, and the least probability of either sort."""
_HEAVIEST = 0.9
"""No power law is drawn with a larger exponent, unless the observed one is larger: from 1 on there is no mean, and the
longest job would dominate the run."""
_WIDER = 2.2
"""Largest factor by which the drawn sigma exceeds the observed one."""
_NORMAL = NormalDist()


class Durations:
    """The distribution of durations, fitted to observed attempts."""

    def __init__(self, seconds: Sequence[float], ages: Sequence[float]) -> None:
        """`seconds` are the durations of finished attempts, at least one; `ages` the ages of attempts in flight."""
        self._body, self._weights, self._share = _body(seconds, ages)
        ended = sorted(max(each, 1e-3) for each in seconds)
        begun = [each for each in ages if each > 0]
        # The effective number of observations: attempts in flight say little.
        self._known = len(ended) ** 2 / (len(ended) + len(begun))
        self._mu, self._sigma = _lognormal(ended, begun)
        self._longest = max(ended[-1], max(begun, default=0.0))
        self._threshold = self._body[-1]
        over = [math.log(each / self._threshold) for each in ended if each > self._threshold]
        in_flight = [math.log(each / self._threshold) for each in begun if each > self._threshold]
        # The exponent of a power law: the mean logarithm of the excess, with censored attempts (Hill estimator).
        supposed = _SUPPOSED * self._sigma
        self._counted = len(over) + _DOUBT
        self._power = (sum(over) + sum(in_flight) + _DOUBT * supposed) / self._counted
        self._heavy = self._power_law_probability(over, in_flight)

    @property
    def mean(self) -> float:
        """The mean duration of an attempt, with the most probable parameters."""
        tail = _Lognormal(self._threshold, self._mu, self._sigma)
        below = fmean(self._body, self._weights)
        return (1 - self._share) * below + self._share * _mean_beyond(tail, self._most(tail), _USUAL)

    def _most(self, tail: _Lognormal) -> float:
        """Return the longest duration that is drawn."""
        return max(_BEYOND * self._longest, tail.deviating(_FAR))

    def _power_law_probability(self, over: Sequence[float], in_flight: Sequence[float]) -> float:
        """Return the probability that the tail is a power law rather than lognormal."""
        start = (math.log(self._threshold) - self._mu) / self._sigma
        left = max(_normal_survival(start), 1e-12)
        odds = -_RARER
        for each in over:
            place = start + each / self._sigma
            odds -= each / self._power + math.log(self._power)
            odds -= math.log(max(_NORMAL.pdf(place), 1e-300) / self._sigma / left)
        for each in in_flight:
            odds -= each / self._power + math.log(max(_normal_survival(start + each / self._sigma), 1e-300) / left)
        return _NEVER_SURE + (1 - 2 * _NEVER_SURE) / (1 + math.exp(-max(min(odds, 30.0), -30.0)))

    def draw(self, rng: random.Random) -> DrawnDuration:
        """Draw one possible distribution: the observed durations are a random sample, too."""
        body = rng.choices(self._body, self._weights, k=min(len(self._body), _SAMPLE))
        power = self._power * self._counted / rng.gammavariate(self._counted, 1.0)
        known = self._known + 1
        sigma = self._sigma * min(math.sqrt(known / (2 * rng.gammavariate(known / 2, 1.0))), _WIDER)
        mu = self._mu + sigma * rng.gauss(0.0, 1.0) / math.sqrt(known)
        lognormal = _Lognormal(self._threshold, mu, max(sigma, _LEAST_SPREAD))
        heavy = rng.random() < self._heavy
        tail = _PowerLaw(self._threshold, min(power, max(self._power, _HEAVIEST), 3.0)) if heavy else lognormal
        return DrawnDuration(rng, body, tail, self._share, self._most(lognormal))


class DrawnDuration:
    """The distribution of durations in one simulation."""

    def __init__(self, rng: random.Random, body: list[float], tail: _Tail, share: float, most: float) -> None:
        self._rng = rng
        self._tail = tail
        self._share = share
        self._most = most
        self._body = sorted(body)
        self._sums = list(accumulate(self._body))

    def sample(self) -> float:
        """Return the duration of a new attempt."""
        if self._rng.random() < self._share:
            return self._beyond(self._rng.random())
        return self._rng.choice(self._body)

    def mean(self, number: int) -> float:
        """Return the mean duration of `number` attempts."""
        tail = _mean_beyond(self._tail, self._most, max(number, 1) * self._share)
        return (1 - self._share) * self._sums[-1] / len(self._body) + self._share * tail

    def longest(self, number: int) -> float:
        """Return the longest duration of `number` attempts."""
        left = -math.expm1(math.log(self._rng.random() or 1e-300) / number)
        if left < self._share:
            return self._beyond(max(left, 1e-300) / self._share)
        return self._body[min(int((1 - left) / (1 - self._share) * len(self._body)), len(self._body) - 1)]

    def remaining(self, age: float) -> float:
        """Return the remaining time of an attempt that has been in flight for `age` seconds."""
        if age < self._tail.threshold:
            place = bisect_right(self._body, age)
            longer = (len(self._body) - place) / len(self._body) * (1 - self._share)
            if self._rng.random() * (longer + self._share) < longer:
                return self._rng.choice(self._body[place:]) - age
            return self._beyond(self._rng.random()) - age
        # An attempt older than the longest duration may end at any time, and takes at most half as long again.
        most = max(self._most, 1.5 * age)
        return min(self._tail.quantile(self._tail.survival(age) * (self._rng.random() or 1e-300)), most) - age

    def remaining_if_found(self, age: float) -> float:
        """Return the remaining time of an attempt found in flight that is at least `age` seconds old."""
        # Long attempts are found in flight more often than short ones.
        whole = max(self._length_biased(), 1e-3)
        found_at = whole * self._rng.random()
        return self.remaining(max(age, found_at)) if age else whole - found_at

    def _length_biased(self) -> float:
        below = (1 - self._share) * self._sums[-1] / len(self._body)
        durations, sums = self._tail_length_biased
        beyond = self._share * sums[-1]
        if self._rng.random() * (below + beyond) < beyond:
            return durations[bisect_left(sums, self._rng.random() * sums[-1])]
        return self._body[bisect_left(self._sums, self._rng.random() * self._sums[-1])]

    @cached_property
    def _tail_length_biased(self) -> tuple[list[float], list[float]]:
        """Durations of the tail, and the cumulative sums of the total time that each of them takes."""
        strata = _strata(self._tail, self._most, _USUAL)
        return [length for _, length in strata], list(accumulate(share * length for share, length in strata))

    def _beyond(self, left: float) -> float:
        return min(self._tail.quantile(left or 1e-300), self._most)


class _PowerLaw:
    """A power-law tail: of all durations above the threshold, the share `left` exceeds threshold ÷ left ** power."""

    def __init__(self, threshold: float, power: float) -> None:
        self.threshold = threshold
        self._power = max(power, 1e-6)

    def quantile(self, left: float) -> float:
        return self.threshold * math.exp(min(-math.log(left) * self._power, 50.0))

    def survival(self, length: float) -> float:
        return math.exp(math.log(self.threshold / length) / self._power)


class _Lognormal:
    """The tail of a lognormal distribution above the threshold."""

    def __init__(self, threshold: float, mu: float, sigma: float) -> None:
        self.threshold = threshold
        self._mu, self._sigma = mu, sigma
        self._above = max(_normal_survival((math.log(threshold) - mu) / sigma), 1e-12)

    def quantile(self, left: float) -> float:
        share = min(max(left * self._above, 1e-300), 1 - 1e-12)
        return max(math.exp(min(self._mu - self._sigma * _NORMAL.inv_cdf(share), 50.0)), self.threshold)

    def deviating(self, far: float) -> float:
        """Return the duration that is `far` standard deviations above the mean of the logarithms."""
        return math.exp(min(self._mu + far * self._sigma, 50.0))

    def survival(self, length: float) -> float:
        return min(_normal_survival((math.log(length) - self._mu) / self._sigma) / self._above, 1.0)


_Tail = _PowerLaw | _Lognormal


def _normal_survival(place: float) -> float:
    return math.erfc(place / math.sqrt(2)) / 2


def _mean_beyond(tail: _Tail, most: float, number: float) -> float:
    """Return the mean of `number` durations of the tail."""
    return sum(share * length for share, length in _strata(tail, most, number))


def _strata(tail: _Tail, most: float, number: float) -> list[tuple[float, float]]:
    """Return `number` durations of the tail as strata of (share, duration), which get narrower towards the longest."""
    least = 1 / (number + 1)
    edges = [*(least ** (step / _STRATA) for step in range(_STRATA + 1)), 0.0]
    return [(wide - narrow, min(tail.quantile((wide + narrow) / 2), most)) for wide, narrow in pairwise(edges)]


def _body(seconds: Sequence[float], ages: Sequence[float]) -> tuple[list[float], list[float], float]:
    """Return the durations below the tail in order, the probability of each, and the probability of the tail.

    The probability of an attempt in flight is shared among all longer durations (Kaplan-Meier). The share that remains
    above all finished attempts belongs to the tail.
    """
    known = sorted([(max(each, 1e-3), True) for each in seconds] + [(each, False) for each in ages])
    durations, weights, left = list[float](), list[float](), 1.0
    for place, (length, ended) in enumerate(known):
        if ended:
            durations.append(length)
            weights.append(left / (len(known) - place))
            left -= weights[-1]
        if durations and left <= _TAIL:
            break
    return durations, weights, max(left, _TAIL / 4)


def _lognormal(ended: Sequence[float], in_flight: Sequence[float]) -> tuple[float, float]:
    """Return the most probable mean and standard deviation of the logarithms, with attempts in flight as censored."""
    logs, ages = [math.log(each) for each in ended], [math.log(each) for each in in_flight]
    mu = fmean(logs)
    # A single duration has no spread, so a prior is added, which many durations outweigh.
    sigma = math.sqrt((sum((each - mu) ** 2 for each in logs) + _FEW * _USUAL_SPREAD**2) / (len(logs) + _FEW))
    for _ in range(25 if ages else 0):
        first = second = 0.0
        for age in ages:
            place = (age - mu) / sigma
            hazard = _NORMAL.pdf(place) / max(_normal_survival(place), 1e-12) if place < 6 else place
            first += mu + sigma * hazard
            second += mu**2 + sigma**2 + sigma * hazard * (mu + age)
        number = len(logs) + len(ages)
        new = (sum(logs) + first) / number
        squares = sum(each**2 for each in logs) + second + _FEW * (_USUAL_SPREAD**2 + new**2)
        mu, sigma = new, math.sqrt(max(squares / (number + _FEW) - new**2, _LEAST_SPREAD**2))
    return mu, max(sigma, _LEAST_SPREAD)
