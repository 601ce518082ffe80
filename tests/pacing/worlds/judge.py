"""How well a policy does over many worlds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.pacing.worlds.draw import draw
from tests.pacing.worlds.world import Pace, World, best_possible, play

REFUSAL_COST = 5
"""What a refusal costs in the score, in accepted requests."""


LEAST_PERIOD = 2.5
"""Seconds: a host may be asked nothing for twice as long whatever its window is."""


@dataclass(frozen=True)
class Verdict:
    """What came of a policy in one world."""

    seed: int
    kind: str
    text: str
    goodput: float
    """Accepted requests, as a share of the oracle's."""
    refused: float
    """Refused requests, as a share of all."""
    score: float
    silent: bool
    """Whether the host was asked nothing for longer than two of its windows or bans."""
    slowness: float
    """The mean latency, as a multiple of that of an idle host."""


def verdict(world: World, pace: Pace) -> Verdict:
    """Run a policy in a world, and judge it."""
    run, best = play(world, pace), best_possible(world)
    period = max(world.limiter(random.Random(world.seed)).period, LEAST_PERIOD)
    return Verdict(
        world.seed,
        world.kind,
        world.text,
        run.accepted / best,
        run.refused / max(run.accepted + run.refused, 1),
        (run.accepted - REFUSAL_COST * run.refused) / best,
        run.longest_gap > 2 * period + 4 * (world.service + world.there),
        run.latency / max(run.accepted, 1) / world.service,
    )


def judge(make: Callable[[], Pace], seeds: Iterable[int], kind: str | None = None) -> list[Verdict]:
    """Run a policy in the worlds of these seeds."""
    return [verdict(draw(seed, kind), make()) for seed in seeds]


def at(values: Iterable[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def summary(verdicts: list[Verdict]) -> dict[str, float]:
    """Return the figures of these worlds together."""
    return {
        "goodput": at((each.goodput for each in verdicts), 0.5),
        "goodput at 10 %": at((each.goodput for each in verdicts), 0.1),
        "refused": at((each.refused for each in verdicts), 0.5),
        "refused at 90 %": at((each.refused for each in verdicts), 0.9),
        "score": sum(each.score for each in verdicts) / max(len(verdicts), 1),
        "silent": sum(each.silent for each in verdicts),
    }
