"""How the learned rate does in simulated worlds, beside other policies: `python -m benchmarks.pace_worlds`.

A world is a host with a limiter, a network, and processes that share a store; its seed draws all of it. An oracle that
knows the limiter gives the best possible. The score is what was accepted less five times what was refused, as a share
of the oracle's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tests.pacing.worlds.draw import KINDS, draw
from tests.pacing.worlds.judge import Verdict, summary, verdict
from tests.pacing.worlds.learned import Learned
from tests.pacing.worlds.others import OTHERS
from tests.pacing.worlds.world import Pace

OURS = "learned"


def run(make: Callable[[], Pace], seeds: range) -> dict[str, list[Verdict]]:
    """Run a policy in the worlds of these seeds, and return its verdicts by kind."""
    by_kind: dict[str, list[Verdict]] = {kind: [] for kind in KINDS}
    for seed in seeds:
        found = verdict(draw(seed), make())
        by_kind[found.kind].append(found)
    return by_kind


def print_ours(by_kind: dict[str, list[Verdict]]) -> None:
    """Print the figures of the learned rate by kind, and the worst worlds."""
    print("| host | worlds | goodput | at 10 % | refused | at 90 % | silent | latency |")
    print(f"|{'---|' * 8}")
    everything = [found for each in by_kind.values() for found in each]
    for kind, verdicts in [*by_kind.items(), ("all", everything)]:
        it = summary(verdicts)
        slowness = sorted(found.slowness for found in verdicts)[len(verdicts) // 2]
        print(
            f"| {kind} | {len(verdicts)} | {it['goodput']:.2f} | {it['goodput at 10 %']:.2f} | {it['refused']:.1%}"
            f" | {it['refused at 90 %']:.1%} | {it['silent']:.0f} | {slowness:.1f} |"
        )
    print("\nThe ten worlds with the lowest score:\n")
    for found in sorted(everything, key=lambda each: each.score)[:10]:
        print(f"- {found.seed}, {found.kind}: {found.text}. Goodput {found.goodput:.2f}, {found.refused:.1%} refused")


def main(arguments: list[str]) -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pace_worlds", description=__doc__)
    parser.add_argument("--worlds", type=int, default=2000, help="for the learned rate")
    parser.add_argument("--others", type=int, default=400, help="worlds in which it is compared with the others")
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first world")
    chosen = parser.parse_args(arguments)
    first = chosen.seed
    print(f"Worlds {first} to {first + chosen.worlds - 1}:\n", flush=True)
    print_ours(run(Learned, range(first, first + chosen.worlds)))
    policies: dict[str, Callable[[], Pace]] = {OURS: Learned, **OTHERS}
    seeds = range(first, first + chosen.others)
    print(
        f"\nThe mean score, at least -1 in each world, in worlds {first} to {first + chosen.others - 1}:\n", flush=True
    )
    results = {name: run(make, seeds) for name, make in policies.items()}
    print(f"| host | {' | '.join(policies)} |\n|---|{'---|' * len(policies)}")
    for kind in KINDS:
        scores = [[max(found.score, -1.0) for found in results[name][kind]] for name in policies]
        print(f"| {kind} | {' | '.join(f'{sum(each) / max(len(each), 1):.2f}' for each in scores)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
