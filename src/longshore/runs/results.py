"""The results of a run as JSONL, a completed job a line, oldest first; streamed, and whole or not there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from longshore.errors import UsageError
from longshore.queue import Queue
from longshore.runs.export.rows import ResultLine, ResultRows
from longshore.runs.export.whole import STDOUT, opened, place_name

DEFAULT_OUT = "results.jsonl"


def place_for(run: str) -> str:
    """A file for the results of a run where nobody named one, such that no results of another run are lost.

    `results.jsonl` where that is free or this run's own, else a name with the run's id in it.
    """
    numbered = (f"results-{run}-{n}.jsonl" for n in itertools.count(2))
    names = itertools.chain([DEFAULT_OUT, f"results-{run}.jsonl"], numbered)
    return next(name for name in names if _free(Path(name), run))


def _free(path: Path, run: str) -> bool:
    """Whether nothing is lost with the file: it is not there, empty, or what this run wrote before."""
    try:
        with path.open("rb") as file:
            first = file.readline()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return not first or msgspec.json.decode(first, type=ResultLine).run == run
    except msgspec.DecodeError:
        return False


@dataclass(frozen=True)
class Delivered:
    """Results that were written."""

    place: str
    lines: int
    replaced: bool
    """Whether there was a file of that name before."""
    evaded: bool
    """Whether it got another name than usual, to keep what is there."""


def _there(place: str) -> bool:
    return place != STDOUT and Path(place).exists()


async def deliver(queue: Queue, run: str, out: str | None) -> Delivered:
    """Write the results of a run where they were asked for; where nobody said, where nothing is lost by it."""
    place = place_for(run) if out is None else out
    replaced = _there(place)
    lines = await write_results(queue, run, place)
    return Delivered(place, lines, replaced, evaded=out is None and place != DEFAULT_OUT)


async def write_results(queue: Queue, run: str, out: str) -> int:
    """Write the result of every completed job and return their number. `-` is standard output.

    A file is written under another name and renamed when it is whole, so that nobody ever reads half of it. One whose
    name ends in .zst or .gz is compressed.
    """
    try:
        with opened(out) as file:
            return await _write(queue, run, file)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"The results cannot be written to {place_name(out)}: {error.strerror or error}. They are safe in the "
            f"queue; make room, or choose another place with --out, and give the same command again with --run {run}."
        ) from error


async def _write(queue: Queue, run: str, file: BinaryIO) -> int:
    encoder = msgspec.json.Encoder()
    count = 0
    async for row in ResultRows(queue, run).each():
        file.write(encoder.encode(row.line) + b"\n")
        count += 1
    return count
