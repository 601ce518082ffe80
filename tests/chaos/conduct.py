"""One trial from its beginning to its verdict."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.chaos.faults import FAULTS, set_back
from tests.chaos.record_database import CRASHED
from tests.chaos.roles import LATE, ROLES, begin
from tests.chaos.trial import Trial, Verdict
from tests.chaos.twins import TWINS

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
    CRASHED,
)
_OF_MEDIA: Mapping[str, tuple[str, ...]] = {
    "directory": ("stale listing",),
    "postgres": ("server crashed", "read-only server"),
    "git": ("remote not found",),
    "http": ("server killed", "server stands still"),
}

TWIN_STEPS = 60
"""The fewest steps of a trial that must find a twin."""

Steps = Mapping[Callable[[Trial], None], float]


def all_faults(medium: str) -> tuple[str, ...]:
    """Return the names of all faults that trials on a medium have."""
    return (*_FAULTS, *_OF_MEDIA.get(medium, ()))


def conduct(folder: Path, medium: str, seed: str, seconds: float) -> Verdict:
    """Run a trial of this length, drain it, and return its verdict."""
    chance = random.Random(f"{seed} {medium}")
    with Trial(folder, medium, seed, record_database=chance.random() < 0.3) as trial:
        begin(trial)
        # Afterwards the checker is lenient about much that happened before, so only some trials have it.
        rare = {set_back: 1.0} if chance.random() < 0.25 else {}
        trial.conduct(seconds, {**ROLES, **FAULTS, **rare})
        for step in LATE:
            step(trial)
        return trial.verdict()


def conduct_twin(folder: Path, twin: str, seed: str, seconds: float, steps: Steps) -> Verdict:
    """Run a trial with the processes of a broken twin, and return its verdict."""
    with Trial(folder, TWINS[twin].medium, seed, twin=twin, patience=15) as trial:
        begin(trial)
        trial.conduct(seconds, steps, least=TWIN_STEPS)
        return trial.verdict()
