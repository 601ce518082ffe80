"""When a run will be done: the time within which half of such runs end, and that within which nine of ten do.

What is known (`Evidence`) goes in, an `Estimate` comes out: a pure function, the same for the same evidence.

How
    The rest of the run is played through some hundreds of times. Each time,
    - how long attempts take is drawn from how long they took, and from a tail that is fitted to it: where few have
      been seen, the longest is yet to come (`lengths`);
    - the work is done by as many hands as the throughput seen says there are (jobs a second × seconds a job), which
      counts the idle ones out; at first, before much is seen, by as many as the workers have;
    - the last jobs are played one by one, with their retries and the pauses before them: one straggler is enough. Of
      those before them the longest is played, and so are those that have been under way for long;
    - the pace drifts, by as much as it did before, and more the further ahead one looks;
    - jobs lead to as many more as they did before, each of which has to wait for the one before it;
    - kinds that were not met yet may take longer or shorter;
    - nothing ends before the slowest host has let its last job through, or before the last delayed job may begin.
    The quantiles of the ends are the answer.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean, median, pvariance

import msgspec

from longshore.runs.estimate.durations import DrawnDuration, Durations
from longshore.runs.estimate.throughput import ThroughputSpan

_PLAYED, _FEWEST_PLAYED = 200, 40
_STEPS = 20_000
"""Attempts played in all, so that an estimate costs some tens of milliseconds at most."""
_ONE_BY_ONE, _MOST_ONE_BY_ONE = 50, 400
"""Jobs at the end of a run that are played one by one."""
_OLDEST = 8
"""Attempts under way that are played for themselves, in front of the last."""
_GENERATIONS = 100
"""Jobs in a line, each of which leads to the next, that are played at most."""
_BACKOFF = 4.0
"""Seconds before a first retry, where none has been seen to wait."""
_RETRIES = 3
_DRIFT, _FAR_DRIFT, _MOST_DRIFT = 0.08, 0.22, 0.6
"""By how much the pace differs from that seen (the logarithm's deviation): always, when looking as far ahead as one has
looked back, and at most."""
_HOST_DRIFT = 0.15
_UNMET = 1.2
"""How far the lengths of one kind of job differ from those of another (the logarithm's deviation)."""
_HALF_LIFE = 30
"""Jobs after which a span counts half, at least; else a third of all that were seen."""


class Binding(StrEnum):
    """What a run would have to be given more of, or rid of, to end sooner."""

    WORKERS = "workers"
    HOST = "host"
    """The rate of one host."""
    RETRIES = "retries"
    DELAYS = "delays"
    """Jobs that may not begin yet."""
    STRAGGLERS = "stragglers"
    """A few long jobs, while most hands have nothing to do."""
    NOBODY = "nobody"
    """No worker, or none that takes some of the kinds."""


class HostLoad(msgspec.Struct, frozen=True):
    """What waits for one host."""

    host: str
    jobs: float
    """Jobs of it that are not finished; a guess where they were not all counted."""
    rate: float
    """How many a second it lets through."""
    closed_for: float = 0.0
    """Seconds until it may be asked again."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run at one moment."""

    pending: int
    claimed: int
    spans: tuple[ThroughputSpan, ...] = ()
    """What finished when, oldest first."""
    idle: float = 0.0
    """Seconds for which somebody has watched and nothing has finished."""
    going: bool = False
    """Whether something was seen to finish within the last half minute."""
    seconds: tuple[float, ...] = ()
    """What attempts took that settled their jobs."""
    ages: tuple[float, ...] = ()
    """For how many seconds attempts have been under way, at least; a sample."""
    workers: int | None = None
    """Who is on the roll for this run; None where the queue keeps none."""
    slots: float | None = None
    """How many attempts they may have under way at once; None where they do not say, and spans go by workers."""
    retried: float = 0.0
    """The share of attempts that failed and after which the job was, or will be, tried again."""
    delayed: float = 0.0
    """How many of the pending jobs may not begin yet; a guess where they were not all counted."""
    waits: tuple[float, ...] = ()
    """For how many seconds: a sample, the longest among it."""
    hosts: tuple[HostLoad, ...] = ()
    """Hosts that are closed, or whose rate is known and holds requests back."""
    more: float | None = 0.0
    """Jobs that each unfinished one leads to, in the end; None where the run grows and no end is in sight."""
    more_doubt: float = 0.0
    """How far that may be wrong: the deviation of its logarithm."""
    generations: int = 0
    """How many times, one after the other, jobs lead to more."""
    paused: bool = False
    """Whether nothing of it may begin."""
    untaken: tuple[str, ...] = ()
    """Kinds that wait, and that no worker takes."""
    unmet: float = 0.0
    """The share of what is left that is of kinds of which nothing, or little beside others, has finished."""

    @property
    def remaining(self) -> int:
        """What is not finished yet."""
        return self.pending + self.claimed


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What an estimate goes by."""

    finished: int
    """Jobs seen to finish, and in how many seconds."""
    seconds: float
    timed: int
    """Attempts whose length is known."""
    workers: int | None
    slots: float
    """How many attempts are under way at once, going by the throughput."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """How long the rest of a run takes, in seconds from now."""

    p50: float | None
    """Half of such runs end within this; None where it cannot be said."""
    p90: float | None
    """Nine of ten do."""
    binds: Binding | None = None
    host: str = ""
    """Which host, where one binds."""
    untaken: tuple[str, ...] = ()
    """Which kinds no worker takes, where that is what binds."""
    basis: Basis | None = None
    unknown: str = ""
    """Why it cannot be said."""


def estimate(evidence: Evidence) -> Estimate:
    """How long the rest of a run takes, and what it waits for."""
    if not evidence.remaining:
        return Estimate(p50=0.0, p90=0.0)
    if evidence.paused and evidence.pending:
        return Estimate(p50=None, p90=None, unknown="it is paused")
    finished = sum(span.finished for span in evidence.spans)
    if unattended(evidence):
        return Estimate(p50=None, p90=None, binds=Binding.NOBODY, unknown="nobody is at work on it")
    if evidence.untaken:
        kinds = f"{'kind' if len(evidence.untaken) == 1 else 'kinds'} {', '.join(evidence.untaken)}"
        why = f"no worker takes {kinds}"
        return Estimate(p50=None, p90=None, binds=Binding.NOBODY, untaken=evidence.untaken, unknown=why)
    if not finished:
        return Estimate(p50=None, p90=None, unknown="nothing has finished yet")
    if evidence.more is None:
        return Estimate(p50=None, p90=None, unknown="its jobs add more jobs than are done")
    model = _Model(msgspec.structs.replace(evidence, spans=_attended(evidence.spans)))
    played = model.play(model.retried)
    p50, p90 = _quantile(played, 0.5), _quantile(played, 0.9)
    binds, host = _binding(evidence, model, p50)
    basis = Basis(
        finished=finished,
        seconds=sum(span.seconds for span in evidence.spans),
        timed=len(evidence.seconds),
        workers=evidence.workers,
        slots=model.capacity,
    )
    return Estimate(p50=p50, p90=p90, binds=binds, host=host, basis=basis)


def unattended(evidence: Evidence) -> bool:
    """Whether work is left and nobody seems to be at it: nobody is on the roll, and nothing was seen to finish."""
    nobody = not evidence.claimed if evidence.workers is None else not evidence.workers
    return bool(evidence.remaining) and nobody and not evidence.going and not evidence.paused


def _binding(evidence: Evidence, model: _Model, p50: float) -> tuple[Binding, str]:
    slowest = max(evidence.hosts, key=_host_seconds, default=None)
    if slowest is not None and _host_seconds(slowest) >= 0.85 * p50:
        return Binding.HOST, slowest.host
    if evidence.waits and max(evidence.waits) >= 0.7 * p50:
        return Binding.DELAYS, ""
    if model.retried and _quantile(model.play(0.0), 0.5) <= 0.7 * p50:
        return Binding.RETRIES, ""
    if model.even_seconds <= 0.5 * p50:
        return Binding.STRAGGLERS, ""
    return Binding.WORKERS, ""


def _host_seconds(load: HostLoad) -> float:
    return load.closed_for + load.jobs / load.rate


class _Model:
    """The evidence as numbers to play with."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.retried = min(evidence.retried, 0.9)
        hands = evidence.slots or float(max(evidence.claimed, 1))
        rate, seen = _rate(evidence, 0.0)
        self._lengths = Durations(evidence.seconds or (hands / max(rate, 1e-6),), evidence.ages)
        self._mean = self._lengths.mean
        rate, seen = _rate(evidence, sum(min(age / self._mean, 1.0) for age in evidence.ages))
        # Jobs a second × seconds a job is how many are under way. Of few jobs it says little: those that take long have
        # not finished yet.
        little = rate * self._mean / (1 - self.retried)
        trust = 2 * hands if evidence.slots else hands / 2
        self.capacity = max((trust * hands + seen * little) / (trust + seen), 1e-6)
        if evidence.slots:
            self.capacity = min(self.capacity, hands)
        self._hands = max(math.ceil(self.capacity - 1e-9), 1)
        self._stretch = self._hands / self.capacity
        """Idle time between two jobs, as a factor."""
        self._drift = _drift(evidence, self.even_seconds)
        self._oldest = sorted(evidence.ages, reverse=True)[:_OLDEST] or [0.0]
        self._pause = 2 * median(evidence.waits) if evidence.waits else _BACKOFF
        """Before a first retry: what is left of a pause is half of it on average."""

    @property
    def even_seconds(self) -> float:
        """How long it took if the work were shared out evenly to the end."""
        jobs = self._evidence.remaining * (1 + (self._evidence.more or 0.0))
        return jobs * self._mean / (1 - self.retried) / self.capacity

    def play(self, retried: float) -> list[float]:
        """The ends of the run, played through so many times, in order."""
        last = min(self._evidence.remaining, max(_ONE_BY_ONE, 2 * self._hands), _MOST_ONE_BY_ONE)
        times = min(max(_STEPS // last, _FEWEST_PLAYED), _PLAYED)
        chance = random.Random(1)  # noqa: S311  the same evidence, the same estimate
        return sorted(self._once(chance, last, retried) for _ in range(times))

    def _once(self, chance: random.Random, last: int, retried: float) -> float:
        evidence, lengths = self._evidence, self._lengths.play(chance)
        played = self._one_by_one(chance, lengths, last, retried)
        grown = chance.lognormvariate(0.0, evidence.more_doubt) if evidence.more else 0.0
        stragglers = self._descent(chance, lengths, grown)
        if before := evidence.remaining - last + round(evidence.remaining * (evidence.more or 0.0) * grown):
            front = before * lengths.mean(before) / (1 - retried) / self.capacity
            played += front
            stragglers = max(
                stragglers,
                front * chance.random() + lengths.longest(before),
                *(lengths.rest(age) for age in self._oldest),
            )
        other = math.exp(chance.gauss(0.0, _UNMET)) if evidence.unmet else 1.0
        longer = 1 + evidence.unmet * (other - 1)
        end = max(played * longer * math.exp(chance.gauss(0.0, self._drift)), stragglers)
        for load in evidence.hosts:
            end = max(end, _host_seconds(load) * math.exp(chance.gauss(0.0, _HOST_DRIFT)) + lengths.any())
        if evidence.waits:
            end = max(end, max(evidence.waits) + lengths.any())
        return end

    def _descent(self, chance: random.Random, lengths: DrawnDuration, grown: float) -> float:
        """How long the longest line of jobs takes that lead to each other: however many hands there are."""
        if not self._evidence.generations or not grown:
            return 0.0
        # Which line dies out last is chance: a Gumbel distribution, as of all that is the last of many.
        last = -math.log(-math.log(chance.random() or 1e-300))
        number = self._evidence.generations * grown * (1 + last / math.log(self._evidence.remaining + 2))
        return sum(lengths.any() for _ in range(min(round(number), _GENERATIONS)))

    def _one_by_one(self, chance: random.Random, lengths: DrawnDuration, last: int, retried: float) -> float:
        """How long the last jobs take: each goes to the hand that is free first."""
        evidence, free = self._evidence, [0.0] * self._hands
        later: list[tuple[float, int]] = []
        """Jobs that may begin at an instant, and how often they were tried."""
        fresh = last
        if evidence.remaining == last:
            # All that is left is played: what is under way has its age, what is delayed its time.
            under_way = min(self._hands, evidence.claimed)
            ages = sorted(evidence.ages, reverse=True)[:under_way]
            free[:under_way] = [
                *(lengths.rest(age) for age in ages),
                *(
                    lengths.rest_of_any(0.0 if evidence.pending else evidence.idle)
                    for _ in range(under_way - len(ages))
                ),
            ]
            delayed = min(round(evidence.delayed), last - under_way)
            later = [(chance.choice(evidence.waits), 1) for _ in range(delayed)] if evidence.waits else []
            fresh = last - under_way - len(later)
        else:
            # Of very many hands no more are played than there are jobs.
            free = [lengths.rest_of_any(0.0) for _ in range(min(self._hands, last))]
            fresh = last - len(free)
        free = [each * self._stretch for each in free]
        heapq.heapify(later)
        end = 0.0
        for ended in free:
            end = max(end, ended)
            if ended and chance.random() < retried:
                heapq.heappush(later, (ended + self._pause, 1))
        heapq.heapify(free)
        while fresh or later:
            begin, tried = heapq.heappop(free), 0
            if later and (not fresh or later[0][0] <= begin):
                ready, tried = heapq.heappop(later)
                begin = max(begin, ready)
            else:
                fresh -= 1
            done = begin + lengths.any() * self._stretch
            heapq.heappush(free, done)
            end = max(end, done)
            if tried < _RETRIES and chance.random() < retried:
                heapq.heappush(later, (done + self._pause * 2**tried, tried + 1))
        return end


def _attended(spans: Sequence[ThroughputSpan]) -> tuple[ThroughputSpan, ...]:
    """Without the times when nobody was there, which say nothing of how fast anybody is."""
    return tuple(span for span in spans if span.finished or span.slots != 0)


def _rate(evidence: Evidence, begun: float) -> tuple[float, float]:
    """Jobs a second, what finished lately counting more than what finished long ago; and how many that is based on.

    `begun` is how many jobs those under way make, as far as they have come.
    """
    half_life = max(_HALF_LIFE, sum(span.finished for span in evidence.spans) / 3)
    jobs, seconds, weights, age = begun, 0.0, 0.0, 0.0
    for span in reversed(evidence.spans):
        weight = 0.5 ** (age / half_life)
        # As many as the hands of today would have finished.
        hands = evidence.slots or evidence.workers
        scale = hands / span.slots if hands and span.slots else 1.0
        jobs += weight * span.finished * scale
        seconds += weight * span.seconds
        weights += weight * span.finished
        age += span.finished
    return jobs / max(seconds, 1e-6), weights


def _drift(evidence: Evidence, ahead: float) -> float:
    """How far the pace may come to differ from that seen, as the deviation of its logarithm."""
    back = sum(span.seconds for span in evidence.spans)
    far = _FAR_DRIFT * min(ahead / max(back, 1e-6), 2.0) ** 0.5
    return min(math.sqrt(_DRIFT**2 + far**2 + _unsteadiness(evidence.spans) ** 2), _MOST_DRIFT)


def _unsteadiness(spans: Sequence[ThroughputSpan]) -> float:
    """By how much the pace has changed from one part of the time to another, beyond chance, relative to its mean."""
    parts = _parts(spans, 6)
    if len(parts) < 4:
        return 0.0
    normed = all(part.slots for part in parts)
    rates = [part.finished / part.seconds / (part.slots or 1.0 if normed else 1.0) for part in parts]
    mean = fmean(rates)
    if mean <= 0:
        return 0.0
    by_chance = 2 / max(fmean(part.finished for part in parts), 1.0)
    # What will be is the mean over the time to come, which is steadier than its parts.
    return math.sqrt(max(pvariance(rates) / mean**2 - by_chance, 0.0)) / 2


def _parts(spans: Sequence[ThroughputSpan], number: int) -> list[ThroughputSpan]:
    """The spans, put together into so many of about the same length."""
    length = sum(span.seconds for span in spans) / number
    parts, seconds, finished, slots = [], 0.0, 0, 0.0
    for span in spans:
        seconds, finished = seconds + span.seconds, finished + span.finished
        slots += span.seconds * (span.slots or 0.0)
        if seconds >= length * 0.999:
            parts.append(ThroughputSpan(seconds, finished, slots / seconds or None))
            seconds, finished, slots = 0.0, 0, 0.0
    return parts


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
