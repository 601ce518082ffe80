"""The guide of the trials draws what fills the matrix."""

from __future__ import annotations

from tests.chaos import faults, roles
from tests.chaos.conduct import Steps, all_faults, guide_for
from tests.chaos.faults import FAULTS
from tests.chaos.guide import QUIET
from tests.chaos.media import MEDIA
from tests.chaos.roles import ROLES

from longshore.conformance.history.coverage import NO_FAULT, TRANSITIONS

STEPS: Steps = {roles.operate: 1.0, roles.look: 1.0, faults.suspend: 1.0}


def test_a_step_that_fills_an_empty_cell_is_drawn_more_often_until_it_was_tried() -> None:
    guide = guide_for("sqlite")
    fresh = guide.weights(STEPS, {"suspend"})
    assert fresh[0] > 3 * fresh[1]
    for _ in range(20):
        guide.taken(roles.operate, {"suspend"})
    assert guide.weights(STEPS, {"suspend"})[0] < fresh[0] / 3


def test_a_full_column_changes_no_weight() -> None:
    guide = guide_for("sqlite")
    guide.found.update((transition, fault) for transition in TRANSITIONS for fault in guide.columns)
    assert guide.weights(STEPS, set()) == [1.0, 1.0, 1.0]


def test_a_fault_whose_column_is_empty_is_drawn_more_often() -> None:
    guide = guide_for("sqlite")
    guide.found.update((transition, NO_FAULT) for transition in TRANSITIONS)
    guide.found.update(
        (transition, fault) for transition in TRANSITIONS for fault in guide.columns if fault != "suspend"
    )
    operate, look, suspend = guide.weights(STEPS, set())
    assert operate == look < suspend


def test_a_fault_is_drawn_more_often_while_something_rare_is_under_way() -> None:
    guide = guide_for("sqlite")
    full = [(transition, fault) for transition in TRANSITIONS for fault in guide.columns]
    guide.found.update(cell for cell in full if cell != ("path merge", "suspend"))
    before, under_way = (guide.weights(STEPS, set(), coming) for coming in ((), {"path merge"}))
    assert under_way[:2] == before[:2]
    assert under_way[2] > 3 * before[2]


def test_of_the_faults_of_one_step_the_one_with_empty_cells_is_preferred_until_it_was_drawn() -> None:
    guide = guide_for("http")
    own = ["server killed", "server stands still"]
    guide.found.update((transition, "server stands still") for transition in TRANSITIONS)
    killed, still = guide.shares(own)
    assert killed > 10 * still
    for _ in range(30):
        guide.drawn("server killed")
    killed, still = guide.shares(own)
    assert killed < still


def test_every_column_belongs_to_a_step_of_the_trials() -> None:
    for medium in MEDIA:
        guide, steps = guide_for(medium), dict.fromkeys([*ROLES, *FAULTS, faults.set_back], 1.0)
        for fault in all_faults(medium):
            full = (cell for cell in ((each, other) for each in TRANSITIONS for other in guide.columns))
            guide.found.clear()
            guide.found.update(cell for cell in full if cell[1] != fault)
            assert max(guide.weights(steps, set())) > max(steps.values()), f"nothing brings about {fault} on {medium}"


def test_the_quiet_steps_are_steps_of_the_trials() -> None:
    assert set(QUIET) <= set(ROLES)
