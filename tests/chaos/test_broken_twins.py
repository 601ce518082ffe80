"""The history checker finds each broken twin, whatever the seed; otherwise a clean trial would prove nothing (F12)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.chaos.conduct import Steps, conduct_twin
from tests.chaos.faults import kill, set_back, show_stale_listings, stop_past_the_lease
from tests.chaos.roles import pause, start_worker, stop_worker, submit, submit_long_jobs
from tests.chaos.twins import TWINS

_WORK: Steps = {submit: 3, start_worker: 4, submit_long_jobs: 3}


class Found(NamedTuple):
    """How a twin is found: by which rules, and what happens in its trials beside work."""

    by: frozenset[str]
    steps: Steps
    """Chance must have an occasion to meet the fault."""
    seconds: float = 8
    lease: int = 0
    """The seconds of a lease, if they differ from those of other trials."""


FOUND: Mapping[str, Found] = {
    "no epoch check": Found(frozenset({"C2"}), {stop_past_the_lease: 6}, 12),
    # A worker that stood still for longer than its lease settles nothing, and a busy machine takes its time.
    "no holder check": Found(frozenset({"C2"}), {set_back: 8}, 30, lease=12),
    "settle before records": Found(frozenset({"C3"}), {kill: 1}),
    "pause ignored by one face": Found(frozenset({"C8"}), {pause: 4}),
    "count, then claim": Found(frozenset({"C2"}), {kill: 1}),
    "late-loaded state without uncommitted changes": Found(frozenset({"C1"}), {stop_worker: 2}, 14),
    "absence believed at first sight": Found(frozenset({"C1", "C5", "C6"}), {show_stale_listings: 8}, 14),
}


SHORT = (
    "settle before records",
    "late-loaded state without uncommitted changes",
    "absence believed at first sight",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With --long all twins, otherwise one for each medium."""
    metafunc.parametrize("twin", TWINS if metafunc.config.getoption("--long") else SHORT)


@pytest.mark.ledger("F12")
def test_the_checker_finds(twin: str, tmp_path: Path, long: bool) -> None:
    """With --long on three fresh seeds, otherwise on one."""
    for number in range(3 if long else 1):
        seed = secrets.token_hex(4)
        print(f"{twin}: seed {seed}")
        folder = tmp_path / str(number)
        folder.mkdir()
        by, steps, seconds, lease = FOUND[twin]
        verdict = conduct_twin(folder, twin, seed, seconds, {**_WORK, **steps}, lease)
        broken = {each.rule for each in verdict.violations}
        assert broken & by, f"{twin}: not found with seed {seed}; the histories are in {folder}"
