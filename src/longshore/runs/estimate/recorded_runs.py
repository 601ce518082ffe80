"""Recordings of runs, and how good estimates would have been on them.

A recording is a JSONL file: a line for each look at the run, `{"at": …, "done": …, "evidence": {…}}`, with the seconds
since the first look, the share of jobs that were finished, and what an estimate goes by; and a last line `{"end": …}`
with the seconds until the run had ended. It holds no payloads, no results and no keys; hosts are in it by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from longshore.errors import InputFileError
from longshore.runs.estimate.estimate import Estimate, Evidence, estimate
from longshore.runs.watch.watcher import RunSnapshot

_STEP = 0.01
"""By which share a run must have gone on for another look to be written."""


class RecordedLook(msgspec.Struct, frozen=True):
    """One look."""

    at: float
    done: float
    """The share of the jobs that are finished."""
    evidence: Evidence


class Recording(msgspec.Struct, frozen=True):
    """A run from the first look to its end."""

    looks: tuple[RecordedLook, ...]
    end: float


class Replayed(msgspec.Struct, frozen=True):
    """What was, or would have been, estimated at one look, and what came of it."""

    done: float
    estimate: Estimate
    actual: float
    """Seconds that the rest took."""

    @property
    def within_p50(self) -> bool:
        return self.estimate.p50 is not None and self.actual <= self.estimate.p50

    @property
    def within_p90(self) -> bool:
        return self.estimate.p90 is not None and self.actual <= self.estimate.p90


class _End(msgspec.Struct, frozen=True):
    end: float


class Recorder:
    """Writes a recording, look by look."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._began: float | None = None
        self._done = -1.0

    def note(self, look: RunSnapshot) -> None:
        """The run stands so; where nothing remains it has ended, and so has the recording."""
        self._began = look.at if self._began is None else self._began
        at, count = look.at - self._began, look.count
        done = (count.total - count.remaining) / count.total
        if count.remaining and 0 <= done - self._done < _STEP:
            return
        self._done = done
        for line in (RecordedLook(at, done, look.evidence), *([] if count.remaining else [_End(at)])):
            self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()


def read_recording(path: Path) -> Recording:
    """The recording in a file. `InputFileError` where it holds none, or one that has no end."""
    lines = path.read_bytes().splitlines()
    try:
        *looks, end = lines
        return Recording(
            tuple(msgspec.json.decode(line, type=RecordedLook) for line in looks),
            msgspec.json.decode(end, type=_End).end,
        )
    except (ValueError, msgspec.DecodeError) as error:
        raise InputFileError(f"{path} is no recording of a run that was watched to its end: {error}.") from error


def replay(recording: Recording, shares: Sequence[float] = (0.1, 0.25, 0.5, 0.75)) -> list[Replayed]:
    """What an estimate would have said when these shares of the run were done. Looks that came too late count once."""
    chosen = {
        next((seen for seen in recording.looks if seen.done >= share and seen.evidence.remaining), None): None
        for share in shares
    }
    return [
        Replayed(seen.done, estimate(seen.evidence), recording.end - seen.at) for seen in chosen if seen is not None
    ]


def coverage(replayed: Iterable[Replayed]) -> tuple[float, float]:
    """The shares of runs that ended within the P50 and within the P90 said of them, of those that were estimated."""
    known = [each for each in replayed if each.estimate.p50 is not None]
    if not known:
        return 0.0, 0.0
    return sum(each.within_p50 for each in known) / len(known), sum(each.within_p90 for each in known) / len(known)
