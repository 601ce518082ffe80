"""The directory medium beside a naive queue of renamed files, in one run.

python -m benchmarks.directory_run [JOBS] [ROUNDS] [BACKLOG]
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from benchmarks import directory_medium, directory_naive
from benchmarks.measure import by_turns, rate, scratch


def drained(jobs: int, rounds: int) -> dict[str, float]:
    """Jobs a second that two processes drain."""

    def naive(synced: bool) -> float:
        with scratch() as folder:
            directory_naive.fill(folder / "queue", jobs)
            return rate(directory_naive.drain, folder / "queue", synced)

    def ours() -> float:
        with scratch() as folder:
            directory_medium.fill(folder / "queue", jobs)
            return rate(directory_medium.drain, folder / "queue")

    return by_turns(
        {"naive, not synced": lambda: naive(False), "naive, synced": lambda: naive(True), "longshore, synced": ours},
        rounds=rounds,
    )


def claim_cost(backlog: int, rounds: int) -> dict[str, float]:
    """Milliseconds of a claim of ten jobs with few and with many pending; the median."""
    with scratch() as folder:
        sizes = {"1,000 pending": 1000, f"{backlog:,} pending": backlog}
        roots: dict[str, Path] = {name: folder / str(size) for name, size in sizes.items()}
        for name, size in sizes.items():
            print(f"submitted {size:,}: {directory_medium.fill(roots[name], size):,.0f} jobs/s", flush=True)
        taken = directory_medium.claims_by_turns(roots, rounds)
        return {name: statistics.median(seconds) * 1000 for name, seconds in taken.items()}


def main(jobs: int = 3000, rounds: int = 3, backlog: int = 100_000) -> None:
    """Run both and print what they say."""
    rates = drained(jobs, rounds)
    for name, value in rates.items():
        print(
            f"drained, {name}: {value:,.0f} jobs/s ({value / rates['naive, synced']:.2f} x naive, synced)", flush=True
        )
    few, many = claim_cost(backlog, 80).items()
    for name, milliseconds in (few, many):
        print(f"claim of 10, {name}: {milliseconds:.2f} ms ({milliseconds / few[1]:.2f} x)")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
