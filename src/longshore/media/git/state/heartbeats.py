"""Heartbeats: what workers last wrote, and for how long this observer has seen each unchanged.

Two machines' clocks are never compared to judge a lease. The observer remembers, by its own monotonic clock, when it
saw a heartbeat change; a worker whose heartbeat has not changed for the lease length written in it is silent. The
processes of a machine share what they saw (`media.sightings`). On a machine that has never looked before, every worker
counts as alive for one lease; only what is shown to people uses the instant that the worker wrote by its own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from secrets import randbits
from typing import Any

import msgspec

from longshore.clock import Clock
from longshore.extensions.presence import PresentWorker, worker_info
from longshore.lease import DEFAULT_LEASE, WorkerId
from longshore.media.git.state.branch_files import HeartbeatFile, stem_of
from longshore.media.sightings import Sightings

_LONGEST_LEASE = 30 * 86_400.0
_DUE_AFTER = 1 / 3
"""The part of a lease after which a heartbeat is due: two may fail before the worker counts as dead."""
_HIGHEST = 2**53


class Heartbeats:
    """The heartbeats of a queue, by the stems of their files."""

    def __init__(self, clock: Clock, sightings: Sightings) -> None:
        self._clock = clock
        self._beats: dict[str, HeartbeatFile] = {}
        self._sightings = sightings
        """The last seen `beat` of each worker, and since when. Also watches holders that have no heartbeat."""

    def update(self, stem: str, beat: HeartbeatFile | None) -> None:
        """Set the content of a worker's file; None if it is gone or cannot be decoded."""
        if beat is None:
            self._beats.pop(stem, None)
            return
        self._beats[stem] = beat
        # Only a new `beat` shows that the worker is alive: not its deregistration, and not a file that is back because
        # the commit that removed it was refused.
        self._sightings.see(stem, str(beat.beat))

    def watch(self, stem: str) -> None:
        """Watch a worker that holds a job, even if it has no heartbeat."""
        self._silence(stem)

    def next_heartbeat(
        self, worker: WorkerId, lease_seconds: float, about: Mapping[str, Any] | None = None
    ) -> HeartbeatFile:
        """Return the worker's next heartbeat, with a new `beat`. Without `about` it keeps the worker's info."""
        last = self._beats.get(stem_of(worker))
        # Start at a random number: a heartbeat that was removed and written again must not look unchanged.
        number = randbits(40) if last is None or not 0 <= last.beat < _HIGHEST else last.beat + 1
        return HeartbeatFile(
            label=worker.label,
            incarnation=worker.incarnation,
            lease_seconds=lease_seconds,
            beat=number,
            at=self._clock.now(),
            about=dict(about) if about is not None else None if last is None else last.about,
        )

    def without_info(self, stem: str) -> HeartbeatFile:
        """Return the worker's current heartbeat without its info: the worker is then no longer registered."""
        return msgspec.structs.replace(self._beats[stem], about=None)

    def exists(self, stem: str) -> bool:
        """Return whether a worker has a heartbeat."""
        return stem in self._beats

    def is_registered(self, stem: str) -> bool:
        """Return whether a worker is registered, alive or not."""
        beat = self._beats.get(stem)
        return beat is not None and beat.about is not None

    def is_due(self, stem: str) -> bool:
        """Return whether the next heartbeat of a registered worker is due."""
        return self.is_registered(stem) and self._silence(stem) >= self._lease(stem) * _DUE_AFTER

    def label(self, stem: str) -> str:
        """Return the label of a worker."""
        beat = self._beats.get(stem)
        return beat.label if beat is not None else stem.partition("~")[0]

    def silent(self, holders: Iterable[str]) -> list[str]:
        """Return the workers and holders whose heartbeat has not changed for longer than their lease."""
        return [stem for stem in {*self._beats, *holders} if self._is_silent(stem)]

    def present(self) -> list[PresentWorker]:
        """Return the registered workers that are not silent, ordered by label."""
        found = [
            PresentWorker(worker, worker_info(beat.about), self._unseen(stem))
            for stem, beat in self._beats.items()
            if beat.about is not None
            # Ignore a file whose name belongs to another worker.
            and stem_of(worker := WorkerId(beat.label, beat.incarnation)) == stem
            and not self._is_silent(stem)
        ]
        return sorted(found, key=lambda each: (each.worker.label, each.worker.incarnation))

    def _is_silent(self, stem: str) -> bool:
        # After a time without a look, give a worker that could not push either the time to do so.
        lease = self._lease(stem)
        return self._silence(stem) > lease and self._sightings.watched_for() >= lease * _DUE_AFTER

    def _unseen(self, stem: str) -> float | None:
        """Return for how many seconds a worker was not seen, if that is longer than its lease; for people only."""
        beat = self._beats[stem]
        seconds = self._silence(stem)
        if beat.at and not self._sightings.see(stem, str(beat.beat)).changed:
            seconds = max(seconds, self._clock.now() - beat.at)
        return seconds if seconds > self._lease(stem) else None

    def _silence(self, stem: str) -> float:
        # A heartbeat that was removed says nothing new about its worker.
        beat = self._beats.get(stem)
        return self._sightings.unchanged_for(stem, self._sightings.state(stem) if beat is None else str(beat.beat))

    def _lease(self, stem: str) -> float:
        beat = self._beats.get(stem)
        return DEFAULT_LEASE.total_seconds() if beat is None else min(max(beat.lease_seconds, 0.0), _LONGEST_LEASE)
