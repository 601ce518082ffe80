"""Policies of other crawlers and of networks, written from their described behaviour, for comparison.

Crawlers that do not share anything between processes have a state for each process here, too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.pacing.worlds.world import View

from longshore.pacing.host_rate import AnswerCounts

_FASTEST = 1000.0


@dataclass
class PaceState:
    """What such a policy knows of a host."""

    rate: float
    next: float = 0.0
    closed_until: float = 0.0
    changed_at: float = 0.0
    """When the rate was lowered last: refusals of requests that were sent before say nothing new."""
    grown_at: float = 0.0
    peak: float = 0.0
    in_a_row: int = 0
    latency: float = 0.0
    slots: int = 0


class Spaced:
    """Requests one after another at a rate; a subclass says how answers change the rate."""

    shared = True
    start = 1.0
    lead = 0.1

    def first(self, now: float) -> PaceState:
        return PaceState(self.start, grown_at=now)

    def reserve(self, state: PaceState, now: float, count: int, since: float) -> tuple[PaceState, list[float]]:
        instants = []
        for _ in range(count):
            instant = max(state.next, state.closed_until, now)
            instants.append(instant)
            state.next = instant + self.spacing(state)
        state.slots += count
        return state, instants

    def spacing(self, state: PaceState) -> float:
        return 1 / state.rate

    def view(self, state: PaceState) -> View:
        return View(max(state.next, state.closed_until), 0.0, 1 / state.rate, self.lead, 0.0, False, state.slots)

    def fold(self, state: PaceState, answers: AnswerCounts, now: float) -> PaceState:
        if answers.passed:
            state.in_a_row = 0
            state.latency = answers.seconds / answers.passed
            self.passed(state, now)
        if answers.refused and answers.sent > state.changed_at:
            state.changed_at = now
            self.refused(state, now)
        state.closed_until = max(state.closed_until, answers.closed_until)
        state.rate = min(max(state.rate, 1 / 60), _FASTEST)
        return state

    def passed(self, state: PaceState, now: float) -> None: ...
    def refused(self, state: PaceState, now: float) -> None: ...


class Aimd(Spaced):
    """Additive increase, multiplicative decrease: one request a second more every second, half after a refusal."""

    def passed(self, state: PaceState, now: float) -> None:
        state.rate += max(now - state.grown_at, 0.0)
        state.grown_at = now

    def refused(self, state: PaceState, now: float) -> None:
        state.rate /= 2
        state.grown_at = now


class Cubic(Spaced):
    """The window growth of TCP CUBIC (RFC 9438), on the rate: 0.7 of it after a refusal, then along a cubic curve."""

    def passed(self, state: PaceState, now: float) -> None:
        if not state.peak:
            state.rate *= 2 ** min(max(now - state.grown_at, 0.0), 1.0)
            state.grown_at = now
            return
        seconds = now - state.changed_at
        whole = (0.3 * state.peak / 0.4) ** (1 / 3)
        state.rate = max(0.4 * (seconds - whole) ** 3 + state.peak, 0.1)

    def refused(self, state: PaceState, now: float) -> None:
        state.peak = state.rate
        state.rate *= 0.7


class AutoThrottle(Spaced):
    """Scrapy's AutoThrottle with one request at a time as the goal: the delay follows the latency of good answers."""

    shared = False
    start = 0.2

    def passed(self, state: PaceState, now: float) -> None:
        delay = 1 / state.rate
        state.rate = 1 / max((delay + state.latency) / 2, state.latency)

    def spacing(self, state: PaceState) -> float:
        return random.Random(state.slots).uniform(0.5, 1.5) / state.rate


class CrawleeBackoff(Spaced):
    """Crawlee: more and more requests at once, and a pause of 2, 4, … 60 s for a host after refusals in a row."""

    shared = False

    def passed(self, state: PaceState, now: float) -> None:
        state.rate = (1 + now / 10) / max(state.latency, 0.01)

    def refused(self, state: PaceState, now: float) -> None:
        state.closed_until = max(state.closed_until, now + min(2 * 2**state.in_a_row, 60))
        state.in_a_row += 1


class StormCrawlerBackoff(Spaced):
    """StormCrawler: one request at a time and a second between two; each failure in a row doubles the delay."""

    def passed(self, state: PaceState, now: float) -> None:
        state.rate = 1 / (1 + state.latency)

    def refused(self, state: PaceState, now: float) -> None:
        state.in_a_row += 1
        state.rate = 1 / min(2**state.in_a_row, 300)


class FixedDelay(Spaced):
    """Two requests a second, whatever the answers are. Only Retry-After is obeyed."""

    start = 2.0


OTHERS = {
    "AIMD": Aimd,
    "CUBIC": Cubic,
    "AutoThrottle": AutoThrottle,
    "Crawlee": CrawleeBackoff,
    "StormCrawler": StormCrawlerBackoff,
    "fixed delay": FixedDelay,
}
