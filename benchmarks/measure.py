"""How everything here is measured: real processes that start together, contestants by turns, the median of the rounds.

Only ratios within one run mean anything: two runs, let alone two machines, do not compare.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

SPAWN = multiprocessing.get_context("spawn")
PROCESSES = 2
PAYLOAD = {"url": "https://shop.example/item/", "note": "x" * 150}
"""With its number about 200 bytes of JSON."""


class Figure(NamedTuple):
    """One line of a table of results."""

    name: str
    value: float
    unit: str
    versus: str = ""
    """The contestant that `ratio` is taken to."""
    ratio: float | None = None


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of its own, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="longshore-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def rate(work: Callable[..., int], *arguments: Any, processes: int = PROCESSES) -> float:
    """Jobs a second over all processes that run `work(*arguments)`, from the common start to the end of the last.

    `work` is a module-level function that returns the number of jobs it did.
    """
    start = SPAWN.Barrier(processes)
    answers = SPAWN.SimpleQueue()
    team = [SPAWN.Process(target=_timed, args=(start, answers, work, arguments)) for _ in range(processes)]
    for member in team:
        member.start()
    spans = [answers.get() for _ in team]
    for member in team:
        member.join()
    seconds = max(end for _, _, end in spans) - min(begin for _, begin, _ in spans)
    return float(sum(number for number, _, _ in spans) / seconds)


def _timed(start: Any, answers: Any, work: Callable[..., int], arguments: tuple[Any, ...]) -> None:
    start.wait()
    begin = time.monotonic()
    number = work(*arguments)
    answers.put((number, begin, time.monotonic()))


def by_turns(contestants: Mapping[str, Callable[[], float]], *, rounds: int = 3) -> dict[str, float]:
    """The median of each contestant; they take turns, so that what else the machine does meets all alike."""
    seen: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            seen[name].append(contestant())
    return {name: statistics.median(values) for name, values in seen.items()}
