"""The lanes of a state: a run, kind and partition each, with the counters of their jobs."""

from __future__ import annotations

from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_files import JobPath, LaneKey, Meta
from longshore.media.git.state.job_index import JobIndex
from longshore.media.git.state.staged_files import StagedFiles


class LaneTable:
    """The lanes by number and by name, and those whose counters have changed since the last commit."""

    def __init__(self, jobs: JobIndex) -> None:
        self._jobs = jobs
        self.by_number: dict[int, LaneKey] = {}
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._touched: set[int] = set()

    @property
    def changed(self) -> bool:
        """Whether there are uncommitted changes."""
        return bool(self._touched)

    def update(self, name: str, oid: str | None, staged: StagedFiles) -> None:
        """Set the content of a lane's file; None if it is gone."""
        stem = name.removesuffix(".json")
        if not stem.isdigit():
            return
        gone = self.by_number.pop(int(stem), None)
        # The lane may have another number by now: lanes are numbered again after a refused push.
        if gone is not None and self._numbers.get(key := (gone.run, gone.kind, gone.partition)) == int(stem):
            del self._numbers[key]
        if oid is not None and (lane := staged.decoded(oid, LaneKey, f"{files.LANES}/{name}")) is not None:
            self.put(int(stem), lane)

    def put(self, number: int, lane: LaneKey) -> None:
        """Add a lane under this number."""
        self.by_number[number] = lane
        self._numbers[lane.run, lane.kind, lane.partition] = number

    def number(self, run: str, kind: str, partition: str, meta: Meta) -> int:
        """Return the number of a lane; a new one gets the next number of `meta`."""
        number = self._numbers.get((run, kind, partition))
        if number is None:
            number = meta.next_lane
            while number in self.by_number or any(self._jobs.unfinished(number)):
                number += 1  # a person has edited longshore.json
            meta.next_lane = number + 1
            self.put(number, LaneKey(run=run, kind=kind, partition=partition))
        return number

    def count(self, place: JobPath, number: int) -> None:
        """Add `number` to the counter of the lane's jobs in the state of `place`."""
        lane = self.by_number.get(place.lane)
        if lane is not None:
            setattr(lane, place.state.value, max(0, getattr(lane, place.state.value) + number))
            self._touched.add(place.lane)

    @property
    def miscounted(self) -> list[int]:
        """The lanes whose counters are not those of their files, or whose own file is missing: a person edited."""
        return [
            number
            for number in self._jobs.unfinished_lanes() | self.by_number.keys()
            if (lane := self.by_number.get(number)) is None
            or (lane.pending, lane.claimed) != self._jobs.unfinished(number)
        ]

    def recount(self, number: int) -> None:
        """Set the counters of a lane's unfinished jobs to the number of files."""
        lane = self.by_number[number]
        lane.pending, lane.claimed = self._jobs.unfinished(number)
        self._touched.add(number)

    def stage(self, staged: StagedFiles) -> None:
        """Write the files of the lanes that have changed; a lane without jobs is removed."""
        for number in self._touched:
            lane = self.by_number[number]
            path = f"{files.LANES}/{number}.json"
            if lane.pending or lane.claimed or lane.completed or lane.failed or lane.cancelled:
                staged.write(path, files.written(lane))
            else:
                staged.remove(path)
                del self.by_number[number]
                del self._numbers[lane.run, lane.kind, lane.partition]
        self._touched = set()
