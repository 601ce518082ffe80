"""`make chaos`: trials with real processes and faults on a medium, until the time is over.

    python -m tests.chaos --medium sqlite --minutes 10 [--seed 7]

Each trial takes about two minutes and has a seed of its own, made of the given one. The command prints the matrix of
transitions and faults that were reached, and every broken rule with the folder of its histories. Exit code 1 if one is.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.chaos.conduct import IMPOSSIBLE, all_faults, conduct, guide_for
from tests.chaos.media import MEDIA

from longshore.conformance.history import RULES
from longshore.conformance.history.coverage import table

MOST_SHOWN = 8
"""Violations of one rule that are printed for a trial."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--medium", choices=[*MEDIA, "all"], default="all")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default="")
    parser.add_argument("--seconds", type=float, default=90.0, help="the length of one trial before it is drained")
    given = parser.parse_args()
    seed = given.seed or secrets.token_hex(4)
    broken = 0
    for medium in MEDIA if given.medium == "all" else [given.medium]:
        broken += trials(medium, seed, given.minutes, given.seconds)
    print(f"Repeat it with SEED={seed}")
    return 1 if broken else 0


def trials(medium: str, seed: str, minutes: float, seconds: float) -> int:
    """Run trials on a medium for so many minutes; return how many broke a rule."""
    until, number, broken = time.monotonic() + 60 * minutes, 0, 0
    guide = guide_for(medium)
    while not number or time.monotonic() < until:
        number += 1
        own = f"{seed}/{number}"
        folder = Path(tempfile.mkdtemp(prefix="longshore-chaos-"))
        verdict = conduct(folder, medium, own, seconds, guide)
        guide.found.update(verdict.coverage)
        print(f"{medium}, seed {own}: {len(verdict.violations)} broken rules, histories in {folder}", flush=True)
        for remark in verdict.remarks:
            print(f"  {remark}")
        for rule, times in sorted(Counter(each.rule for each in verdict.violations).items()):
            print(f"  {rule} {RULES[rule]}: broken {times} times")
            for each in [each for each in verdict.violations if each.rule == rule][:MOST_SHOWN]:
                print(f"    {each}")
        broken += bool(verdict.violations)
    print(f"{medium}: {number} trials, {broken} of them broke a rule\n")
    print(table(guide.found, all_faults(medium), IMPOSSIBLE), flush=True)
    return broken


if __name__ == "__main__":
    sys.exit(main())
