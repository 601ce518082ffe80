"""Upgrades a branch from format 1, whose file names contained no hosts, in the first commit to that branch."""

from __future__ import annotations

import msgspec

from longshore.job import State
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_state import BranchState

_CAN_BE_CLAIMED = frozenset(State) - {State.COMPLETED}
"""Jobs that can be claimed now or later; completed ones cannot."""


def upgrade_names(state: BranchState) -> None:
    """Add the hosts to the names of all jobs that can be claimed. Reads each of these jobs once."""
    if state.meta.format == files.FORMAT:
        return
    for place in list(state.everything(_CAN_BE_CLAIMED)):
        record = state.record(place)
        if record is not None and record.host and not place.host:
            state.move(place, msgspec.structs.replace(place, host=files.host_of(record.host)))
    state.set_format()
