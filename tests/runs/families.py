"""Families of runs that never were, by what is hard to foresee about them."""

from __future__ import annotations

import random
from collections.abc import Callable

from .simulated import Scenario, heavy, lognormal, mixed


def pareto(shortest: float, power: float) -> Callable[[random.Random], float]:
    """Times of which a few are as long as it pleases."""
    return lambda chance: shortest * chance.paretovariate(power)


def steady(chance: random.Random) -> float:
    """Times that hardly differ."""
    return chance.uniform(4, 6)


def branching(mean: float) -> Callable[[random.Random, int], int]:
    """Each job adds none or two, at any depth: the run grows for a while and dies out."""
    return lambda chance, depth: 2 if chance.random() < mean / 2 else 0


def listed(least: int, most: int) -> Callable[[random.Random, int], int]:
    """List pages, which lead to pages that lead nowhere."""
    return lambda chance, depth: chance.randint(least, most) if depth == 0 else 0


FAMILIES: dict[str, list[Scenario]] = {
    "steady": [
        Scenario("even jobs", 150, steady),
        Scenario("even jobs, one worker", 80, steady, workers=((0.0, 1),), concurrency=1),
        Scenario("even jobs, many at once", 400, steady, concurrency=16),
    ],
    "ramp": [
        Scenario("one more now and then", 300, lognormal(5, 0.5), workers=tuple((15.0 * n, n + 1) for n in range(8))),
        Scenario("ten at once", 400, lognormal(5, 0.5), workers=((0.0, 1), (20.0, 10))),
    ],
    "lognormal, sigma 1": [Scenario("sigma 1", 200, lognormal(5, 1.0)), Scenario("few", 60, lognormal(5, 1.0))],
    "lognormal, sigma 1.5": [Scenario("sigma 1.5", 200, lognormal(5, 1.5)), Scenario("few", 60, lognormal(5, 1.5))],
    "lognormal, sigma 2": [Scenario("sigma 2", 200, lognormal(5, 2.0)), Scenario("few", 60, lognormal(5, 2.0))],
    "Pareto, alpha 1.5": [
        Scenario("no end", 250, pareto(2, 1.5)),
        Scenario("no end, few", 60, pareto(2, 1.5)),
        Scenario("up to a timeout", 250, heavy(2, 1.5)),
    ],
    "two kinds mixed": [Scenario("two sorts of jobs", 200, mixed(2, 30, 0.1))],
    "two kinds in sequence": [
        Scenario("half and half", 200, lognormal(4, 0.5), later=(0.5, 0.8)),
        Scenario("mostly the second", 200, lognormal(4, 0.5), later=(0.8, 0.8)),
        Scenario("mostly the first", 200, lognormal(4, 0.5), later=(0.2, 0.8)),
    ],
    "host bound": [
        Scenario("a slow host", 200, lognormal(2, 0.5), hosts={"a.org": (0.5, 50.0), "b.org": (0.5, 0.8)}),
        Scenario("all hosts slow", 150, lognormal(2, 0.5), hosts={"a.org": (0.5, 1.0), "b.org": (0.5, 1.5)}),
        Scenario("one among many", 250, lognormal(3, 0.5), hosts={"a.org": (0.1, 0.3), "": (0.9, 500.0)}),
    ],
    "host closed": [
        Scenario(
            "for a while",
            200,
            lognormal(2, 0.5),
            hosts={"a.org": (0.7, 50.0), "b.org": (0.3, 5.0)},
            # Before the first look: that a host will be closed nobody can know.
            closed={"b.org": (1.0, 120.0)},
        ),
    ],
    "retries": [
        Scenario("retries", 150, lognormal(4, 0.6), fails=0.25),
        Scenario("many retries", 120, lognormal(2, 0.6), fails=0.4, backoff=10.0),
        Scenario("few jobs, retries", 40, lognormal(4, 0.8), fails=0.2),
    ],
    "workers come and go": [
        Scenario("more workers come", 300, lognormal(5, 0.8), workers=((0.0, 3), (30.0, 6))),
        Scenario("workers go", 250, lognormal(5, 0.8), workers=((0.0, 6), (35.0, 4))),
        Scenario("both", 300, lognormal(5, 0.8), workers=((0.0, 4), (20.0, 6), (40.0, 3), (60.0, 5))),
    ],
    "follow-on jobs": [
        Scenario("dies out", 60, lognormal(4, 0.5), adds=branching(0.6)),
        Scenario("dies out late", 40, lognormal(4, 0.5), adds=branching(0.8)),
        Scenario("lists", 40, lognormal(4, 0.5), adds=listed(3, 9), later=(0.0, 0.5)),
    ],
    "ordinary": [
        Scenario("different jobs", 200, lognormal(5, 0.8)),
        Scenario("few jobs", 40, lognormal(10, 0.7), workers=((0.0, 2),)),
        Scenario("one worker", 80, lognormal(5, 0.6), workers=((0.0, 1),), concurrency=1),
        Scenario("nobody says how much it can do", 200, lognormal(5, 0.8), says=False),
        Scenario("attached late", 200, lognormal(5, 0.8), attach=0.2),
    ],
}
