"""How everything here is measured: real processes that start together, contestants by turns, the median of the rounds.

Only ratios within one run mean anything: two runs, let alone two machines, do not compare.
"""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
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
    value: float | None
    """None where it could not be measured; the unit then says why."""
    unit: str
    versus: str = ""
    """The contestant that `ratio` is taken to."""
    ratio: float | None = None


class Settled(NamedTuple):
    """So many jobs that one worker had settled at one moment, by a clock that all workers of the contest share."""

    worker: str
    at: float
    jobs: int


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


def steady_rate(settled: Sequence[Settled], *, workers: int = PROCESSES) -> float:
    """Jobs a second from when the last of the workers had settled something until all was settled.

    So no worker's start-up counts, nor what the others did meanwhile. Raises `ValueError` where a worker did nothing.
    """
    first: dict[str, float] = {}
    for entry in settled:
        first[entry.worker] = min(entry.at, first.get(entry.worker, entry.at))
    if len(first) != workers:
        raise ValueError(f"{len(first)} of {workers} workers settled anything: too few jobs to measure this with")
    begin, end = max(first.values()), max(entry.at for entry in settled)
    jobs = sum(entry.jobs for entry in settled if entry.at > begin)
    if not jobs:
        raise ValueError("All was settled before the last worker began: too few jobs to measure this with")
    return jobs / (end - begin)


def shared_rate(settled: Sequence[Settled], *, after: int, workers: int = PROCESSES) -> float:
    """Jobs a second while all workers were at work: from when each had settled so many until the first of them ended.

    For workers that each do a fixed number of jobs: those who began late, or end alone, do not spoil the figure.
    """
    begins, ends = [], []
    for name in {entry.worker for entry in settled}:
        own = sorted(entry for entry in settled if entry.worker == name)
        sums = itertools.accumulate(entry.jobs for entry in own)
        begins += [entry.at for entry, done in zip(own, sums, strict=True) if done >= after][:1]
        ends.append(own[-1].at)
    if len(begins) != workers or max(begins) >= min(ends):
        raise ValueError(
            f"The {workers} workers were never at work at the same time: too few jobs to measure this with"
        )
    begin, end = max(begins), min(ends)
    return sum(entry.jobs for entry in settled if begin < entry.at <= end) / (end - begin)


def together(work: Callable[..., Any], *arguments: Any, processes: int = PROCESSES) -> list[Any]:
    """The answers of several processes that each run `work(*arguments)`, a module-level function.

    In each, `meet()` returns when all have come to it: what is done before is not part of the contest.
    """
    return together_each(work, [arguments] * processes)


def together_each(work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The same with arguments of its own for each process."""
    start = SPAWN.Barrier(len(arguments))
    with ProcessPoolExecutor(len(arguments), mp_context=SPAWN, initializer=_meet_at, initargs=(start,)) as pool:
        return [answer.result() for answer in [pool.submit(work, *each) for each in arguments]]


def meet(timeout: float = 60.0) -> None:
    """Wait for the other processes of a team."""
    _meeting[0].wait(timeout)


_meeting: list[Any] = []


def _meet_at(start: Any) -> None:
    _meeting[:] = [start]


def by_turns(contestants: Mapping[str, Callable[[], float]], *, rounds: int = 3) -> dict[str, float]:
    """The median of each contestant; they take turns, so that what else the machine does meets all alike."""
    seen: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            seen[name].append(contestant())
    return {name: statistics.median(values) for name, values in seen.items()}
