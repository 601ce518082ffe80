"""Signs of life: what workers last wrote of themselves, and how long each has been silent as watched from here.

No clock of another machine is read. The observer notes by its own monotonic clock when it saw a heartbeat change; one
that has not changed for the length of the lease written in it is silent. So whoever has just begun to look counts
everyone as alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from secrets import randbits
from typing import Any

import msgspec

from longshore.extensions.presence import PresentWorker, worker_info
from longshore.lease import DEFAULT_LEASE, WorkerId
from longshore.media.git.state.branch_files import HeartbeatFile, stem_of

_LONGEST_LEASE = 30 * 86_400.0
_DUE_AFTER = 1 / 3
"""The part of a lease after which a heartbeat is due: two may fail before anyone takes the worker for dead."""
_HIGHEST = 2**53


class Heartbeats:
    """The heartbeats of a queue, by the names of their files."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._beats: dict[str, HeartbeatFile] = {}
        self._seen: dict[str, tuple[int | None, float]] = {}
        """The number each was last seen with, and since when. Holders are watched too where they have no heartbeat."""

    def learn(self, stem: str, beat: HeartbeatFile | None) -> None:
        """A worker's file says this now; None if it is not there, or cannot be understood."""
        if beat is None:
            self._beats.pop(stem, None)
            return
        self._beats[stem] = beat
        # Only a new number is a sign of life: not that a worker left the roll, nor that a file which was removed in a
        # commit that was refused is there again.
        if self._seen.get(stem, (None, 0.0))[0] != beat.beat:
            self._seen[stem] = (beat.beat, self._monotonic())

    def watch(self, stem: str) -> None:
        """A worker holds something, whether it has a heartbeat or not."""
        self._seen.setdefault(stem, (None, self._monotonic()))

    def remember(self, earlier: Heartbeats) -> None:
        """Go on watching where others have watched; what is written is learned anew."""
        self._seen = dict(earlier._seen)

    def watch_anew(self) -> None:
        """Count every worker's silence from now on."""
        now = self._monotonic()
        self._seen = {stem: (number, now) for stem, (number, _) in self._seen.items()}

    def following(
        self, worker: WorkerId, lease_seconds: float, about: Mapping[str, Any] | None = None
    ) -> HeartbeatFile:
        """The worker's next heartbeat, which differs from every one before it. Without new words it keeps its own."""
        last = self._beats.get(stem_of(worker))
        # From a random number on: a file that went and came again must not look as if it had never changed.
        number = randbits(40) if last is None or not 0 <= last.beat < _HIGHEST else last.beat + 1
        return HeartbeatFile(
            label=worker.label,
            incarnation=worker.incarnation,
            lease_seconds=lease_seconds,
            beat=number,
            about=dict(about) if about is not None else None if last is None else last.about,
        )

    def without_words(self, stem: str) -> HeartbeatFile:
        """The heartbeat as it is, of a worker that is not on the roll any more."""
        return msgspec.structs.replace(self._beats[stem], about=None)

    def is_there(self, stem: str) -> bool:
        """Whether a worker has a heartbeat."""
        return stem in self._beats

    def on_roll(self, stem: str) -> bool:
        """Whether a worker has signed in, alive or not."""
        beat = self._beats.get(stem)
        return beat is not None and beat.about is not None

    def is_due(self, stem: str) -> bool:
        """Whether it is time for the next heartbeat of a worker that is on the roll."""
        return self.on_roll(stem) and self._silence(stem) >= self._lease(stem) * _DUE_AFTER

    def label(self, stem: str) -> str:
        """What people call a worker."""
        beat = self._beats.get(stem)
        return beat.label if beat is not None else stem.partition("~")[0]

    def silent(self, holders: Iterable[str]) -> list[str]:
        """Those of all workers and of these holders whose heartbeat has not changed for a full lease."""
        return [stem for stem in {*self._beats, *holders} if self._silence(stem) > self._lease(stem)]

    def present(self) -> list[PresentWorker]:
        """Who is on the roll and not silent, by label."""
        found = [
            PresentWorker(worker, worker_info(beat.about))
            for stem, beat in self._beats.items()
            if beat.about is not None
            # A file under another's name is nobody's word.
            and stem_of(worker := WorkerId(beat.label, beat.incarnation)) == stem
            and self._silence(stem) <= self._lease(stem)
        ]
        return sorted(found, key=lambda each: (each.worker.label, each.worker.incarnation))

    def _silence(self, stem: str) -> float:
        now = self._monotonic()
        return now - self._seen.setdefault(stem, (None, now))[1]

    def _lease(self, stem: str) -> float:
        beat = self._beats.get(stem)
        return DEFAULT_LEASE.total_seconds() if beat is None else min(max(beat.lease_seconds, 0.0), _LONGEST_LEASE)
