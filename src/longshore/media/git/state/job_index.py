"""The jobs of a state by number, key, holder and lane, and the files that are copies of a job's.

Finished jobs are in it only after `BranchState.load_finished`; until then their keys are unknown here, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from longshore.job import FINISHED, State
from longshore.media.git.state.backlog import Backlog
from longshore.media.git.state.branch_files import JobPath
from longshore.media.git.state.heartbeats import Heartbeats


class JobIndex:
    """The places of the jobs; see the module's docstring."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        self._heartbeats = heartbeats
        self.pending: dict[int, JobPath] = {}
        self.active: dict[int, JobPath] = {}
        self.finished: dict[int, JobPath] | None = None
        """None until the finished jobs are loaded."""
        self.held: defaultdict[str, dict[int, JobPath]] = defaultdict(dict)
        """The jobs that each worker holds, by the stem of its file."""
        self.strays: dict[str, JobPath] = {}
        """By path: files with the number or the key of another job, which only a person can have put there."""
        self.numbers: dict[str, int] = {}
        """The number of each job, by its identity."""
        self.backlog = Backlog(self.pending)
        self._unfinished: Counter[tuple[int, State]] = Counter()
        """The number of pending and claimed jobs of each lane."""

    def add(self, place: JobPath) -> None:
        """Add a job, or a stray."""
        if self._is_stray(place):
            return
        match place.state:
            case State.PENDING:
                self.pending[place.number] = place
                self.backlog.add(place)
            case State.CLAIMED:
                self.active[place.number] = place
                self.held[place.holder][place.number] = place
                self._heartbeats.watch(place.holder)
            case _ if self.finished is not None:
                self.finished[place.number] = place
            case _:
                return
        if place.state not in FINISHED:
            self._unfinished[place.lane, place.state] += 1
        self.numbers[place.identity] = place.number

    def remove(self, place: JobPath) -> None:
        """Remove a job, or a stray."""
        if self.strays.pop(place.path, None) is not None:
            return
        gone: JobPath | None = None
        match place.state:
            case State.PENDING:
                gone = self.pending.pop(place.number, None)
            case State.CLAIMED:
                gone = self.active.pop(place.number, None)
                if (held := self.held.get(place.holder)) is not None:
                    held.pop(place.number, None)
                    if not held:
                        del self.held[place.holder]
            case _ if self.finished is not None:
                self.finished.pop(place.number, None)
        if gone is not None:
            self._unfinished[gone.lane, gone.state] -= 1
        if self.numbers.get(place.identity) == place.number:
            del self.numbers[place.identity]

    def find(self, number: int) -> JobPath | None:
        """Return the place of a job; None if there is none, or if it is finished and not loaded."""
        return self.pending.get(number) or self.active.get(number) or (self.finished or {}).get(number)

    def unfinished(self, lane: int) -> tuple[int, int]:
        """Return how many jobs of a lane are pending and claimed, by its files."""
        return self._unfinished[lane, State.PENDING], self._unfinished[lane, State.CLAIMED]

    def unfinished_lanes(self) -> set[int]:
        """Return the lanes that have pending or claimed jobs, by their files."""
        return {lane for (lane, _), number in self._unfinished.items() if number}

    def unfinished_jobs(self, states: frozenset[State] | None) -> Iterator[JobPath]:
        """Yield the places of the pending and claimed jobs in these states, unordered."""
        if states is None or State.PENDING in states:
            yield from self.pending.values()
        if states is None or State.CLAIMED in states:
            yield from self.active.values()

    def _is_stray(self, place: JobPath) -> bool:
        """Return whether a file is a copy of another job's. If it is the other way round, the other becomes a stray."""
        rivals = (self.find(place.number), self.find(self.numbers.get(place.identity, 0)))
        for rival in [each for each in rivals if each is not None and each.path != place.path]:
            if rival.state in FINISHED and place.state in FINISHED:
                continue
            # The older number is the job's own: a copy has a number that was not given yet, or that of another job.
            if rival.state in FINISHED or (place.state not in FINISHED and rival.number <= place.number):
                self.strays[place.path] = place
                return True
            self.remove(rival)
            self.strays[rival.path] = rival
        return False
