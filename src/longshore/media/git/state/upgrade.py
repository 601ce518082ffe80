"""Upgrades a branch of an earlier format in the first commit to that branch.

Format 1 had no hosts in the names of files: they are added, because claims need them. Format 2 had no labels in names:
a job gets its label when it is claimed, so that no file is read for it.
"""

from __future__ import annotations

import msgspec

from longshore.job import State
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_state import BranchState

_WITH_HOSTS = 2
"""The first format whose file names contain hosts."""
_CAN_BE_CLAIMED = frozenset(State) - {State.COMPLETED}
"""Jobs that can be claimed now or later; completed ones cannot."""


def upgrade_names(state: BranchState) -> None:
    """Bring the branch to the current format. From format 1, this reads each job that can be claimed once."""
    if state.meta.format == files.FORMAT:
        return
    if state.meta.format < _WITH_HOSTS:
        for place in list(state.everything(_CAN_BE_CLAIMED)):
            record = state.record(place)
            if record is not None and record.host and not place.host:
                state.move(place, msgspec.structs.replace(place, host=files.host_of(record.host)))
    state.set_format()
