"""The results of a run as JSONL, a completed job a line, oldest first; streamed, and whole or not there."""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from longshore.errors import UsageError
from longshore.job import State
from longshore.queue import Queue, Selection, each_job


class ResultLine(msgspec.Struct, frozen=True):
    """One line of a results file."""

    id: str
    run: str
    kind: str
    key: str
    payload: dict[str, Any]
    result: Any


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
    return place != "-" and Path(place).exists()


async def deliver(queue: Queue, run: str, out: str | None) -> Delivered:
    """Write the results of a run where they were asked for; where nobody said, where nothing is lost by it."""
    place = place_for(run) if out is None else out
    replaced = _there(place)
    lines = await write_results(queue, run, place)
    return Delivered(place, lines, replaced, evaded=out is None and place != DEFAULT_OUT)


async def write_results(queue: Queue, run: str, out: str) -> int:
    """Write the result of every completed job and return their number. `-` is standard output.

    A file is written under another name and renamed when it is whole, so that nobody ever reads half of it.
    """
    if out == "-":
        count = await _write(queue, run, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return count
    target = Path(out)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            count = await _write(queue, run, file)
        part.replace(target)
    except OSError as error:
        raise UsageError(
            f"The results cannot be written to {out}: {error.strerror or error}. They are safe in the queue; "
            f"make room, or choose another place with --out, and give the same command again with --run {run}."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return count


def check_out(out: str) -> None:
    """Refuse, before any work is done, a place the results could not be written to."""
    target = Path(out)
    if out == "-":
        return
    if target.is_dir():
        raise UsageError(f"--out {out} is a folder. Name a file in it, such as {target / 'results.jsonl'}.")
    if not target.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {target.parent}. Make it first, or choose another place.")
    if not os.access(target.parent, os.W_OK):
        raise UsageError(f"--out {out}: the folder {target.parent} cannot be written to. Choose another place.")


async def _write(queue: Queue, run: str, file: BinaryIO) -> int:
    encoder = msgspec.json.Encoder()
    count = 0
    async for job in each_job(queue, Selection(run=run, states=frozenset({State.COMPLETED}))):
        line = ResultLine(job.id, job.run, job.kind, job.key, job.payload, job.result)
        file.write(encoder.encode(line) + b"\n")
        count += 1
    return count
