"""Recordings of runs, and the accuracy of estimates on them.

A recording is a JSONL file: a line for each look at the run, `{"at": …, "done": …, "evidence": {…}}`, with the seconds
since the first look, the share of finished jobs, and the evidence of an estimate; and a last line `{"end": …}` with the
seconds until the run ended. It holds no payloads, results or keys, but it does hold the names of hosts.
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
"""The share of jobs that must finish before another look is written."""


class RecordedLook(msgspec.Struct, frozen=True):
    """One look at a run."""

    at: float
    done: float
    """The share of the jobs that are finished."""
    evidence: Evidence


class Recording(msgspec.Struct, frozen=True):
    """The recording of a run from the first look to its end."""

    looks: tuple[RecordedLook, ...]
    end: float


class Replayed(msgspec.Struct, frozen=True):
    """The estimate at one look, and the time that the run really took."""

    done: float
    estimate: Estimate
    actual: float
    """Seconds from the look to the end of the run."""

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
        """Write a look. If no job remains, the run has ended, and the recording is complete."""
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
    """Return the recording in a file. Raise `InputFileError` if the file holds none, or one without an end."""
    lines = path.read_bytes().splitlines()
    try:
        *looks, end = lines
        return Recording(
            tuple(msgspec.json.decode(line, type=RecordedLook) for line in looks),
            msgspec.json.decode(end, type=_End).end,
        )
    except (ValueError, msgspec.DecodeError) as error:
        raise InputFileError(f"{path} is not a recording of a run that was watched to its end: {error}.") from error


def replay(recording: Recording, shares: Sequence[float] = (0.1, 0.25, 0.5, 0.75)) -> list[Replayed]:
    """Return the estimates at the looks when these shares of the run were done. A look is used only once."""
    chosen = {
        next((seen for seen in recording.looks if seen.done >= share and seen.evidence.remaining), None): None
        for share in shares
    }
    return [
        Replayed(seen.done, estimate(seen.evidence), recording.end - seen.at) for seen in chosen if seen is not None
    ]


def coverage(replayed: Iterable[Replayed]) -> tuple[float, float]:
    """Return the shares of estimated runs that ended within their P50 and within their P90."""
    known = [each for each in replayed if each.estimate.p50 is not None]
    if not known:
        return 0.0, 0.0
    return sum(each.within_p50 for each in known) / len(known), sum(each.within_p90 for each in known) / len(known)
