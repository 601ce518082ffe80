"""One trial from its beginning to its verdict."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.chaos.faults import FAULTS, set_back
from tests.chaos.guide import QUIET, Guide
from tests.chaos.record_database import CRASHED
from tests.chaos.roles import ROLES, begin, move
from tests.chaos.switches import ODD_ROWS
from tests.chaos.trial import Trial, Verdict
from tests.chaos.twins import TWINS

from longshore.conformance.history.coverage import NO_FAULT, Cell

_FAULTS = (
    "SIGKILL",
    "SIGSTOP past the lease",
    "blocked event loop",
    "slow calls",
    "lost answers",
    "lost claim",
    "unreachable",
    "full disk",
    "read-only medium",
    "handler file replaced",
    "submission under way",
    "clock step",
    "suspend",
    "hold may expire",
    "medium set back",
    ODD_ROWS,
)
_OF_MEDIA: Mapping[str, tuple[str, ...]] = {
    "sqlite": (CRASHED,),
    "directory": (CRASHED, "stale listing"),
    "postgres": ("server crashed", "read-only server"),
    "git": (CRASHED, "remote not found"),
    "http": (CRASHED, "server killed", "server stands still"),
}
IMPOSSIBLE: Mapping[Cell, str] = {
    ("unknown answer", NO_FAULT): "only a fault makes an answer unknown",
    ("reap", NO_FAULT): "only a worker that died, stands still or was cut off loses leases",
    ("path watchdog", NO_FAULT): "the watchdog acts on a blocked event loop, which is a fault",
    ("path orphaned lease", NO_FAULT): "a lease has an owner that does not know of it only after a lost answer",
}
"""Cells of the matrix that cannot be reached, and why. With a number nevertheless: the fault had just been ended."""

TWIN_STEPS = 60
"""The fewest steps of a trial that must find a twin."""
QUIET_SHARE = 0.25
"""The part of a trial before the first fault, if something was not tried without faults yet."""

Steps = Mapping[Callable[[Trial], None], float]


def all_faults(medium: str) -> tuple[str, ...]:
    """Return the names of all faults that trials on a medium have."""
    return (*_FAULTS, *_OF_MEDIA[medium])


def guide_for(medium: str) -> Guide:
    """Return a guide for trials on a medium."""
    return Guide(all_faults(medium), IMPOSSIBLE)


def conduct(folder: Path, medium: str, seed: str, seconds: float, guide: Guide | None = None) -> Verdict:
    """Run a trial of this length, drain it, and return its verdict. A guide changes the mix that the seed draws."""
    chance = random.Random(f"{seed} {medium}")

    def occurs(share: float, *faults: str) -> bool:
        holes = guide is not None and any(map(guide.holes, faults))
        return chance.random() < (max(share, 0.5) if holes else share)

    with Trial(
        folder, medium, seed, record_database=occurs(0.3, *{CRASHED, ODD_ROWS} & {*all_faults(medium)})
    ) as trial:
        begin(trial)
        # Afterwards the checker is lenient about much that happened before, so only some trials have it.
        rare: Steps = {set_back: 1.0} if occurs(0.25, "medium set back") else {}
        steps = {**ROLES, **FAULTS, **rare}
        if guide is not None and guide.holes(NO_FAULT):
            trial.conduct(QUIET_SHARE * seconds, {step: steps[step] for step in QUIET}, guide=guide)
        trial.conduct(seconds, steps, guide=guide)
        if "move" not in trial.done:
            move(trial)
        return trial.verdict()


def conduct_twin(folder: Path, twin: str, seed: str, seconds: float, steps: Steps, lease: int = 0) -> Verdict:
    """Run a trial with the processes of a broken twin, and return its verdict."""
    with Trial(folder, TWINS[twin].medium, seed, twin=twin, patience=15, lease=lease) as trial:
        begin(trial)
        trial.conduct(seconds, steps, least=TWIN_STEPS)
        return trial.verdict()
