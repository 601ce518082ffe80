"""Bringing a branch of format 1 over, whose names said nothing of hosts. It is part of the first commit made to it."""

from __future__ import annotations

import msgspec

from longshore.job import State
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_state import BranchState

_CAN_BE_CLAIMED = frozenset(State) - {State.COMPLETED}
"""Now or later: what is completed never comes back."""


def bring_over(ledger: BranchState) -> None:
    """Let the names of jobs say their hosts. Each is opened, once and for all."""
    if ledger.meta.format == files.FORMAT:
        return
    for place in list(ledger.everything(_CAN_BE_CLAIMED)):
        record = ledger.record(place)
        if record is not None and record.host and not place.host:
            ledger.move(place, msgspec.structs.replace(place, host=files.host_of(record.host)))
    ledger.set_format()
