"""Estimate when a run will be done: the time within which half of such runs end, and within which nine of ten end.

`estimate` is a pure function from `Evidence` to `Estimate`: the same evidence gives the same estimate.

Method
    The rest of the run is simulated some hundreds of times. In each simulation,
    - the durations of attempts are drawn from the observed ones and from a tail fitted to them, because after a few
      attempts the longest is still to come (`durations`);
    - the number of busy slots follows from the observed throughput (jobs per second × seconds per job), which excludes
      idle slots; before much is observed, it is the number of slots that the workers report;
    - the last jobs are simulated one by one, with their retries and backoffs, because one straggler is enough to delay
      the end. Of the jobs before them, only the longest and those that have been in flight for long are simulated;
    - the rate drifts as much as it did before, and more the further ahead the end is;
    - jobs create follow-on jobs at the observed rate, and each of these waits for its parent;
    - jobs of kinds that have not finished yet may take longer or shorter;
    - the run does not end before the slowest host has served its last job, or before the last delayed job may start.
    The quantiles of the simulated ends are the estimate.
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
from longshore.runs.watch.current_rate import slots_in_use

_MAX_SIMULATIONS, _MIN_SIMULATIONS = 200, 40
_STEPS = 20_000
"""Simulated attempts in all, so that an estimate takes tens of milliseconds at most."""
_MIN_LAST, _MAX_LAST = 50, 400
"""The fewest and the most jobs at the end of a run that are simulated one by one; all jobs, if fewer remain."""
_OLDEST = 8
"""Oldest attempts in flight that are simulated individually, before the last jobs."""
_GENERATIONS = 100
"""Longest simulated chain of jobs, each of which creates the next."""
_BACKOFF = 4.0
"""Seconds before a first retry, if no delayed job has been observed."""
_RETRIES = 3
_DRIFT, _FAR_DRIFT, _MOST_DRIFT = 0.08, 0.22, 0.6
"""Drift of the rate (standard deviation of its logarithm): always; when the time ahead equals the observed time; and at
most."""
_HOST_DRIFT = 0.15
_KIND_DEVIATION = 1.2
"""Difference between the durations of two kinds of jobs (standard deviation of the logarithm)."""
_HALF_LIFE = 30
"""Finished jobs after which the weight of a span is halved; a third of all observed jobs if that is more."""


class Binding(StrEnum):
    """The bottleneck of a run: what would have to change for it to end sooner."""

    WORKERS = "workers"
    HOST = "host"
    """The rate of one host."""
    RETRIES = "retries"
    DELAYS = "delays"
    """Jobs that may not start yet."""
    STRAGGLERS = "stragglers"
    """A few long jobs, while most slots are idle."""
    NOBODY = "nobody"
    """There is no worker, or none that takes some of the kinds."""


class HostLoad(msgspec.Struct, frozen=True):
    """The unfinished jobs of one host."""

    host: str
    jobs: float
    """Number of unfinished jobs; extrapolated if they were not all counted."""
    rate: float
    """Jobs per second that the host allows."""
    closed_for: float = 0.0
    """Seconds until requests to the host are allowed again."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of a run at one moment."""

    pending: int
    claimed: int
    spans: tuple[ThroughputSpan, ...] = ()
    """Observed throughput, oldest first."""
    idle: float = 0.0
    """Seconds since a job was last seen to finish."""
    going: bool = False
    """Whether a job was seen to finish within the last half minute."""
    seconds: tuple[float, ...] = ()
    """Durations of the attempts that settled their jobs."""
    ages: tuple[float, ...] = ()
    """Least number of seconds that attempts have been in flight; a sample."""
    workers: int | None = None
    """Workers in the registry for this run; None if the queue has no registry."""
    slots: float | None = None
    """Attempts that the workers may have in flight at once; None if they do not report it, and spans count workers."""
    pause: float = 0.0
    """Average seconds that a worker pauses between two jobs."""
    retried: float = 0.0
    """The share of attempts that failed and after which the job is tried again."""
    delayed: float = 0.0
    """Pending jobs that may not start yet; extrapolated if they were not all counted."""
    waits: tuple[float, ...] = ()
    """Seconds until delayed jobs may start: a sample that includes the longest."""
    hosts: tuple[HostLoad, ...] = ()
    """Hosts that are closed, or whose known rate limits the run."""
    more: float | None = 0.0
    """Follow-on jobs that each unfinished job leads to in the end; None if the run grows without an end in sight."""
    more_doubt: float = 0.0
    """Uncertainty of `more`: the standard deviation of its logarithm."""
    generations: int = 0
    """Number of further generations of follow-on jobs."""
    paused: bool = False
    """Whether no job of the run may start."""
    being_submitted: bool = False
    """Whether jobs are being added to the run, so that their number is not known."""
    untaken: tuple[str, ...] = ()
    """Kinds with pending jobs that no worker takes."""
    unmet: float = 0.0
    """The share of the remaining jobs whose kinds are absent or underrepresented among the finished ones."""

    @property
    def remaining(self) -> int:
        """Number of unfinished jobs."""
        return self.pending + self.claimed


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """The observations that an estimate is based on."""

    finished: int
    """Finished jobs that were observed."""
    seconds: float
    """Length of the observed time."""
    timed: int
    """Attempts with a known duration."""
    workers: int | None
    slots: float
    """Attempts in flight at once, derived from the throughput."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The time until a run is done, in seconds from now."""

    p50: float | None
    """Half of such runs end within this time; None if it is not known."""
    p90: float | None
    """Nine of ten such runs end within this time."""
    binds: Binding | None = None
    host: str = ""
    """The host, if a host is the bottleneck."""
    untaken: tuple[str, ...] = ()
    """The kinds that no worker takes, if that is the bottleneck."""
    basis: Basis | None = None
    unknown: str = ""
    """Why the time is not known."""


def estimate(evidence: Evidence) -> Estimate:
    """Return the time until a run is done, and its bottleneck."""
    if not evidence.remaining and not evidence.being_submitted:
        return Estimate(p50=0.0, p90=0.0)
    if evidence.paused and evidence.pending:
        return Estimate(p50=None, p90=None, unknown="it is paused")
    finished = sum(span.finished for span in evidence.spans)
    if unattended(evidence):
        return Estimate(p50=None, p90=None, binds=Binding.NOBODY, unknown="no worker is at work on it")
    if evidence.untaken:
        kinds = f"{'kind' if len(evidence.untaken) == 1 else 'kinds'} {', '.join(evidence.untaken)}"
        why = f"no worker takes {kinds}"
        return Estimate(p50=None, p90=None, binds=Binding.NOBODY, untaken=evidence.untaken, unknown=why)
    if evidence.being_submitted:
        return Estimate(p50=None, p90=None, unknown="it is still being submitted")
    if not finished:
        return Estimate(p50=None, p90=None, unknown="nothing has finished yet")
    if evidence.more is None:
        return Estimate(p50=None, p90=None, unknown="its jobs add more jobs than finish")
    model = _Model(msgspec.structs.replace(evidence, spans=_with_workers(evidence.spans)))
    ends = model.simulate(model.retried)
    p50, p90 = _quantile(ends, 0.5), _quantile(ends, 0.9)
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
    """Return whether jobs are left, no worker is in the registry, and no job was seen to finish lately."""
    no_worker = not evidence.claimed if evidence.workers is None else not evidence.workers
    return bool(evidence.remaining) and no_worker and not evidence.going and not evidence.paused


def _binding(evidence: Evidence, model: _Model, p50: float) -> tuple[Binding, str]:
    """Return the bottleneck, and the host if that is the bottleneck."""
    slowest = max(evidence.hosts, key=_host_seconds, default=None)
    if slowest is not None and _host_seconds(slowest) >= 0.85 * p50:
        return Binding.HOST, slowest.host
    if evidence.waits and max(evidence.waits) >= 0.7 * p50:
        return Binding.DELAYS, ""
    if model.retried and _quantile(model.simulate(0.0), 0.5) <= 0.7 * p50:
        return Binding.RETRIES, ""
    if model.even_seconds <= 0.5 * p50:
        return Binding.STRAGGLERS, ""
    return Binding.WORKERS, ""


def _host_seconds(load: HostLoad) -> float:
    return load.closed_for + load.jobs / load.rate


class _Model:
    """The parameters of the simulations, derived from the evidence."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.retried = min(evidence.retried, 0.9)
        slots = evidence.slots or float(max(evidence.claimed, 1))
        # First without the attempts in flight: how much work was done in them follows from the mean duration.
        rate, _ = _rate(evidence, 0.0)
        self._durations = Durations(evidence.seconds or (slots / max(rate, 1e-6),), evidence.ages)
        self._mean = self._durations.mean
        rate, seen = _rate(evidence, sum(min(age / self._mean, 1.0) for age in evidence.ages))
        # Jobs per second × seconds per job is the number of attempts in flight (Little's law). After a few jobs it is
        # not reliable, because long jobs have not finished yet.
        little = rate * self._mean / (1 - self.retried)
        # The number of slots counts as much as `trust` observed jobs.
        trust = 2 * slots if evidence.slots else slots / 2
        usable = slots_in_use(slots, evidence.workers, evidence.pause, self._mean)
        if evidence.pause:
            # No pause came before the first job of each worker.
            seen = max(seen - (evidence.workers or 0), 0.0)
        self.capacity = max((trust * usable + seen * little) / (trust + seen), 1e-6)
        if evidence.slots:
            self.capacity = min(self.capacity, slots)
        self._slots = max(math.ceil(self.capacity - 1e-9), 1)
        self._stretch = self._slots / self.capacity
        """Factor for every duration: `capacity` is not a whole number, so the simulated slots are idle in between."""
        self._drift = _drift(evidence, self.even_seconds)
        self._oldest = sorted(evidence.ages, reverse=True)[:_OLDEST] or [0.0]
        self._pause = 2 * median(evidence.waits) if evidence.waits else _BACKOFF
        """Seconds before a first retry. Waits are observed halfway on average, so it is twice as long."""

    @property
    def even_seconds(self) -> float:
        """The time until the end if the work were distributed evenly over all slots."""
        jobs = self._evidence.remaining * (1 + (self._evidence.more or 0.0))
        return jobs * self._mean / (1 - self.retried) / self.capacity

    def simulate(self, retried: float) -> list[float]:
        """Return the ends of all simulations, in order."""
        last = min(self._evidence.remaining, max(_MIN_LAST, 2 * self._slots), _MAX_LAST)
        times = min(max(_STEPS // last, _MIN_SIMULATIONS), _MAX_SIMULATIONS)
        rng = random.Random(1)  # noqa: S311  the same evidence, the same estimate
        return sorted(self._simulate_once(rng, last, retried) for _ in range(times))

    def _simulate_once(self, rng: random.Random, last: int, retried: float) -> float:
        evidence, durations = self._evidence, self._durations.draw(rng)
        work = self._simulate_last(rng, durations, last, retried)
        grown = rng.lognormvariate(0.0, evidence.more_doubt) if evidence.more else 0.0
        stragglers = self._longest_chain(rng, durations, grown)
        if before := evidence.remaining - last + round(evidence.remaining * (evidence.more or 0.0) * grown):
            front = before * durations.mean(before) / (1 - retried) / self.capacity
            work += front
            stragglers = max(
                stragglers,
                front * rng.random() + durations.longest(before),
                *(durations.remaining(age) for age in self._oldest),
            )
        other = math.exp(rng.gauss(0.0, _KIND_DEVIATION)) if evidence.unmet else 1.0
        longer = 1 + evidence.unmet * (other - 1)
        end = max(work * longer * math.exp(rng.gauss(0.0, self._drift)), stragglers)
        for load in evidence.hosts:
            end = max(end, _host_seconds(load) * math.exp(rng.gauss(0.0, _HOST_DRIFT)) + durations.sample())
        if evidence.waits:
            end = max(end, max(evidence.waits) + durations.sample())
        return end

    def _longest_chain(self, rng: random.Random, durations: DrawnDuration, grown: float) -> float:
        """Return the duration of the longest chain of follow-on jobs, which more slots do not shorten."""
        if not self._evidence.generations or not grown:
            return 0.0
        # The length of the longest of many chains has a Gumbel distribution, as maxima do.
        gumbel = -math.log(-math.log(rng.random() or 1e-300))
        number = self._evidence.generations * grown * (1 + gumbel / math.log(self._evidence.remaining + 2))
        return sum(durations.sample() for _ in range(min(round(number), _GENERATIONS)))

    def _simulate_last(self, rng: random.Random, durations: DrawnDuration, last: int, retried: float) -> float:
        """Return how long the last jobs take; each goes to the slot that is free first."""
        evidence, free = self._evidence, [0.0] * self._slots
        later: list[tuple[float, int]] = []
        """Delayed jobs: the time at which they may start, and how often they were tried."""
        fresh = last
        if evidence.remaining == last:
            # All remaining jobs are simulated: attempts in flight with their ages, delayed jobs with their times.
            in_flight = min(self._slots, evidence.claimed)
            ages = sorted(evidence.ages, reverse=True)[:in_flight]
            free[:in_flight] = [
                *(durations.remaining(age) for age in ages),
                *(
                    durations.remaining_if_found(0.0 if evidence.pending else evidence.idle)
                    for _ in range(in_flight - len(ages))
                ),
            ]
            delayed = min(round(evidence.delayed), last - in_flight)
            later = [(rng.choice(evidence.waits), 1) for _ in range(delayed)] if evidence.waits else []
            fresh = last - in_flight - len(later)
        else:
            # Simulate no more slots than there are jobs.
            free = [durations.remaining_if_found(0.0) for _ in range(min(self._slots, last))]
            fresh = last - len(free)
        free = [each * self._stretch for each in free]
        heapq.heapify(later)
        end = 0.0
        for ended in free:
            end = max(end, ended)
            if ended and rng.random() < retried:
                heapq.heappush(later, (ended + self._pause, 1))
        heapq.heapify(free)
        while fresh or later:
            begin, tried = heapq.heappop(free), 0
            if later and (not fresh or later[0][0] <= begin):
                ready, tried = heapq.heappop(later)
                begin = max(begin, ready)
            else:
                fresh -= 1
            done = begin + durations.sample() * self._stretch
            heapq.heappush(free, done)
            end = max(end, done)
            if tried < _RETRIES and rng.random() < retried:
                heapq.heappush(later, (done + self._pause * 2**tried, tried + 1))
        return end


def _with_workers(spans: Sequence[ThroughputSpan]) -> tuple[ThroughputSpan, ...]:
    """Return the spans without those that had no worker, which say nothing about the speed of workers."""
    return tuple(span for span in spans if span.finished or span.slots != 0)


def _rate(evidence: Evidence, begun: float) -> tuple[float, float]:
    """Return the jobs per second, weighted towards recent ones, and the weighted number of jobs it is based on.

    `begun` is the amount of work done in the attempts in flight, in jobs.
    """
    half_life = max(_HALF_LIFE, sum(span.finished for span in evidence.spans) / 3)
    jobs, seconds, weights, age = begun, 0.0, 0.0, 0.0
    for span in reversed(evidence.spans):
        weight = 0.5 ** (age / half_life)
        # Scale to the number of slots that there are now.
        slots = evidence.slots or evidence.workers
        scale = slots / span.slots if slots and span.slots else 1.0
        jobs += weight * span.finished * scale
        seconds += weight * span.seconds
        weights += weight * span.finished
        age += span.finished
    return jobs / max(seconds, 1e-6), weights


def _drift(evidence: Evidence, ahead: float) -> float:
    """Return how far the rate may drift from the observed one (standard deviation of its logarithm)."""
    back = sum(span.seconds for span in evidence.spans)
    far = _FAR_DRIFT * min(ahead / max(back, 1e-6), 2.0) ** 0.5
    return min(math.sqrt(_DRIFT**2 + far**2 + _unsteadiness(evidence.spans) ** 2), _MOST_DRIFT)


def _unsteadiness(spans: Sequence[ThroughputSpan]) -> float:
    """Return how much the rate has changed between parts of the observed time, beyond chance, relative to its mean."""
    parts = _joined_parts(spans, 6)
    if len(parts) < 4:
        return 0.0
    normed = all(part.slots for part in parts)
    rates = [part.finished / part.seconds / (part.slots or 1.0 if normed else 1.0) for part in parts]
    mean = fmean(rates)
    if mean <= 0:
        return 0.0
    by_chance = 2 / max(fmean(part.finished for part in parts), 1.0)
    # The future rate is a mean over the time ahead, which varies less than its parts.
    return math.sqrt(max(pvariance(rates) / mean**2 - by_chance, 0.0)) / 2


def _joined_parts(spans: Sequence[ThroughputSpan], number: int) -> list[ThroughputSpan]:
    """Return the spans joined into `number` spans of about the same length."""
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
