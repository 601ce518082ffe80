"""Repairs a state after a person edited files on the branch, in the first commit on top of that edit.

Every commit of Longshore is a valid state of the whole queue, so a difference between counters and files, or two files
of one job, can only come from a person. A tree has no outdated parts: a file that is not in it is gone.
"""

from __future__ import annotations

from longshore.job import State
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_state import BranchState

NOT_A_JOB = "It has the name of a job's file and does not contain that job."
A_COPY = "It is a copy of a job's file: another file has its number or its key."


def repair(state: BranchState) -> None:
    """Reject copies, restore lanes, and set the counters to the number of files. Costs little if nothing is wrong."""
    for place in list(state.jobs.strays.values()):
        state.reject(place, A_COPY)
    for number in state.lanes.miscounted:
        if number not in state.lanes.by_number:
            _restore_lane(state, number)
        if (lane := state.lanes.by_number.get(number)) is not None:
            missing = lane.pending + lane.claimed - sum(state.jobs.unfinished(number))
            if missing > 0:
                state.report_missing(lane, missing)
            state.lanes.recount(number)


def _restore_lane(state: BranchState, number: int) -> None:
    """Write the file of a lane again from one of its jobs; reject the jobs if none of them can be read."""
    places = [each for each in state.everything(frozenset({State.PENDING, State.CLAIMED})) if each.lane == number]
    for place in places:
        record = state.content(place)
        if record is not None and files.identity(record.run, record.kind, record.key) == place.identity:
            state.restore_lane(number, record)
            return
    for place in places:
        state.reject(place, NOT_A_JOB)
