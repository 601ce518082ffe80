"""Guidance: steps that can fill an empty cell of the matrix are drawn more often, so that none is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tests.chaos import faults, roles
from tests.chaos.record_database import CRASHED
from tests.chaos.switches import ODD_ROWS
from tests.chaos.trial import Trial

from longshore.conformance.history.coverage import NO_FAULT, TRANSITIONS, Cell, Coverage

Step = Callable[[Trial], None]

_WORK = ("claim", "complete", "fail", "fail for good", "snooze", "path settler")
_PURPOSES: Mapping[Step, Sequence[str]] = {
    roles.submit: ("submit", "submit a duplicate", *_WORK),
    roles.submit_long_jobs: ("claim", "path settler"),
    roles.start_worker: _WORK,
    roles.stop_worker: ("release an attempt",),
    roles.leave_at_once: ("path shutdown", "release an attempt"),
    roles.submit_a_blocker: ("path watchdog",),
    roles.operate: ("cancel", "retry"),
    roles.release: ("release", "refused settlement"),
    roles.prune_and_resubmit: ("prune",),
    roles.reparse: ("path reparse",),
    roles.copy: ("take over",),
    roles.move: ("path move", "take over"),
    roles.work_offline: ("path merge",),
    faults.kill: ("reap", "unknown answer"),
    faults.stop_past_the_lease: ("reap", "refused settlement"),
    faults.lose_a_claim: ("path orphaned lease", "unknown answer"),
    faults.lose_calls: ("unknown answer",),
}
"""The transitions that a step brings about, soon or at once."""
_OWN_FAULTS: Mapping[Step, Sequence[str]] = {
    faults.kill: ("SIGKILL",),
    faults.stop_past_the_lease: ("SIGSTOP past the lease",),
    faults.slow_calls: ("slow calls",),
    faults.lose_calls: ("lost answers", "unreachable", "full disk", "read-only medium"),
    faults.lose_a_claim: ("lost claim",),
    faults.show_stale_listings: ("stale listing",),
    faults.break_the_handler_file: ("handler file replaced",),
    faults.set_the_clock: ("clock step",),
    faults.suspend: ("suspend",),
    faults.refuse_rows: (ODD_ROWS,),
    faults.set_back: ("medium set back",),
    faults.trouble_of_the_medium: (
        CRASHED,
        "server crashed",
        "read-only server",
        "remote not found",
        "server killed",
        "server stands still",
    ),
    roles.submit_slowly: ("submission under way",),
    roles.submit_a_blocker: ("blocked event loop",),
    roles.work_offline: ("hold may expire",),
}
"""The faults that a step may switch on."""
QUIET: Sequence[Step] = (
    roles.submit,
    roles.start_worker,
    roles.stop_worker,
    roles.leave_at_once,
    roles.operate,
    roles.release,
    roles.prune_and_resubmit,
    roles.reparse,
    roles.copy,
    roles.move,
    roles.work_offline,
)
"""The steps that are no fault."""
_UNDER_A_FAULT, _OF_A_FAULT = 6.0, 4.0
"""How much more often a step is drawn that fills a cell of a fault that is on, or switches on one with empty cells."""


class Guide:
    """Which cells of the matrix are empty, over several trials."""

    def __init__(self, columns: Sequence[str], impossible: Collection[Cell]) -> None:
        self.columns = (NO_FAULT, *columns)
        self.found: Coverage = Counter()
        self._impossible = frozenset(impossible)
        self._tried: Counter[Cell] = Counter()
        self._drawn: Counter[str] = Counter()

    def holes(self, fault: str) -> frozenset[str]:
        """Return the transitions that were not reached under a fault."""
        return frozenset(each for each in TRANSITIONS if self._is_empty((each, fault)))

    def _is_empty(self, cell: Cell) -> bool:
        return cell[1] in self.columns and not self.found[cell] and cell not in self._impossible

    def weights(
        self, steps: Mapping[Step, float], active: Collection[str], coming: Collection[str] = ()
    ) -> list[float]:
        """Return the weights of the steps while these faults are on. `coming` are transitions that are under way."""
        return [weight * self._factor(step, active or {NO_FAULT}, coming) for step, weight in steps.items()]

    def taken(self, step: Step, active: Collection[str]) -> None:
        """Note that a step was taken while these faults were on: the next time, others come first."""
        self._tried.update(self._cells(step, active or {NO_FAULT}))

    def shares(self, faults: Sequence[str]) -> list[float]:
        """Return the weights of the faults of one step: most for one with many empty cells that was drawn seldom."""
        return [(1 + len(self.holes(each))) / (1 + self._drawn[each]) for each in faults]

    def drawn(self, fault: str) -> None:
        """Note that a fault was drawn: the next time, others come first."""
        self._drawn[fault] += 1

    def _factor(self, step: Step, active: Collection[str], coming: Collection[str]) -> float:
        empty = (cell for cell in self._cells(step, active) if self._is_empty(cell))
        gain = sum(_UNDER_A_FAULT / (1 + self._tried[cell]) for cell in empty)
        own = [fault for fault in _OWN_FAULTS.get(step, ()) if fault not in active]
        shares = (len(self.holes(fault)) / len(TRANSITIONS) for fault in own)
        gain += (
            _UNDER_A_FAULT * sum(self._is_empty((each, fault)) for each in coming for fault in own) / (len(own) or 1)
        )
        return 1 + gain + _OF_A_FAULT * max(shares, default=0.0)

    def _cells(self, step: Step, active: Collection[str]) -> Iterator[Cell]:
        return ((transition, fault) for transition in _PURPOSES.get(step, ()) for fault in active)
