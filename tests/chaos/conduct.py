"""One trial from its beginning to its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.roles import LATE, ROLES, begin
from tests.chaos.trial import Trial, Verdict

_FAULTS = (
    "SIGKILL",
    "SIGSTOP past the lease",
    "blocked event loop",
    "slow calls",
    "lost answers",
    "unreachable",
    "handler file replaced",
    "submission under way",
    "clock step",
    "suspend",
    "hold may expire",
)
_OF_MEDIA: Mapping[str, tuple[str, ...]] = {
    "postgres": ("server crashed", "read-only server"),
    "git": ("remote not found",),
}

Steps = Mapping[Callable[[Trial], None], float]


def all_faults(medium: str) -> tuple[str, ...]:
    """Return the names of all faults that trials on a medium have."""
    return (*_FAULTS, *_OF_MEDIA.get(medium, ()))


def conduct(
    folder: Path, medium: str, seed: str, seconds: float, *, twin: str = "", steps: Steps | None = None
) -> Verdict:
    """Run a trial of this length, drain it, and return its verdict."""
    with Trial(folder, medium, seed, twin=twin) as trial:
        begin(trial)
        trial.conduct(seconds, {**ROLES, **FAULTS} if steps is None else steps)
        for step in LATE if steps is None else ():
            step(trial)
        return trial.verdict()
