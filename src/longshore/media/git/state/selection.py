"""Finds the jobs that match a selection. Checks file names first, so that few files are read."""

from __future__ import annotations

from collections.abc import Iterator

from longshore.job import State, number_of
from longshore.media.git.state.branch_files import BranchJob, JobPath
from longshore.media.git.state.branch_state import BranchState
from longshore.queue import Selection


def selected(
    state: BranchState, selection: Selection, now: float, *, after: int = 0, states: frozenset[State] | None = None
) -> Iterator[tuple[JobPath, BranchJob]]:
    """Yield the selected jobs in one of `states` with a number above `after`, oldest first."""
    asked = selection.states if states is None else states
    if states is not None and selection.states is not None:
        asked = states & selection.states
    numbers = None if selection.ids is None else {number_of(each) for each in selection.ids}
    if numbers is not None and len(numbers) < 100:
        found = [place for number in numbers if (place := state.find(number)) is not None]
        candidates = [place for place in found if asked is None or place.state in asked]
    else:
        everything = state.everything(asked)
        candidates = [place for place in everything if numbers is None or place.number in numbers]
    lanes = {
        number
        for number, lane in state.lanes.by_number.items()
        if _lane_matches(selection, lane.run, lane.kind, lane.partition)
    }
    chosen = [place for place in candidates if place.number > after and place.lane in lanes]
    for place in sorted(chosen, key=lambda place: place.number):
        record = state.record(place)
        if record is not None and _record_matches(selection, record, now):
            yield place, record


def _lane_matches(selection: Selection, run: str, kind: str, partition: str) -> bool:
    return (
        (selection.run is None or run == selection.run)
        and (selection.kinds is None or kind in selection.kinds)
        and (selection.partitions is None or partition in selection.partitions)
    )


def _record_matches(selection: Selection, record: BranchJob, now: float) -> bool:
    if not selection.matches_error(record.failure):
        return False
    if selection.older_than is None:
        return True
    return now - (record.settled_at or record.submitted_at) >= selection.older_than.total_seconds()
