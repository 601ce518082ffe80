"""Real processes under faults keep every promise, on every medium (F12). `make chaos` is the long form."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from tests.chaos.conduct import conduct
from tests.chaos.media import MEDIA

SECONDS = 6
"""The length of a short trial, before it is drained."""


def promises_kept(medium: str, seed: str, folder: Path, seconds: float) -> None:
    """Run a trial, and fail with every broken promise."""
    print(f"{medium}, seed {seed}")
    verdict = conduct(folder, medium, seed, seconds)
    broken = "\n".join(map(str, verdict.violations))
    assert not broken, f"{medium}, seed {seed}, histories in {verdict.folder}:\n{broken}"


@pytest.mark.parametrize("medium", sorted(MEDIA))
def test_a_trial_with_a_fixed_seed_keeps_every_promise(medium: str, tmp_path: Path, long: bool) -> None:
    promises_kept(medium, "1", tmp_path, 60 if long else SECONDS)


@pytest.mark.ledger("F2", "F12")
def test_a_trial_with_a_fresh_seed_keeps_every_promise(tmp_path: Path, long: bool) -> None:
    """On a medium that the seed draws."""
    seed = secrets.token_hex(4)
    medium = sorted(MEDIA)[int(seed, 16) % len(MEDIA)]
    promises_kept(medium, seed, tmp_path, 60 if long else SECONDS)
