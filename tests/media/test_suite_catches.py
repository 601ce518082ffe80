"""The suite is only worth something if a faulty medium fails it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAD = """
import pytest
from longshore.clock import ManualClock
from longshore.conformance import ConformanceTests, Harness

class OneQueue(Harness):
    def __init__(self, queue):
        self._clock = ManualClock()
        self._queue = queue(self._clock)

    async def open(self):
        return self._queue

    async def advance(self, seconds):
        self._clock.advance(seconds)
"""
JOINED = """
from {module} import {queue}

class Test{queue}(ConformanceTests):
    @pytest.fixture
    def new_harness(self):
        return lambda: OneQueue({queue})
"""
# Whether it fails is all that is asked, and nobody reads the walk: it need not be made short.
NOT_SHORTENED = """
from hypothesis import Phase
from longshore.conformance.suite import comparison

comparison.PHASES.remove(Phase.shrink)
"""
FIXED = "reference and not fresh"
CAUGHT_BY = {
    "IgnoresTheEpoch": "test_a_stale_lease_changes_nothing",
    "IgnoresTheHolder": "test_a_worker_that_never_claimed_changes_nothing",
    "AddsFollowOnsFirst": "test_a_stale_lease_changes_nothing",
    "ResetsTheEpoch": "test_a_retried_job_has_all_its_attempts_again or test_a_stale_lease_changes_nothing",
    "CountsReleases": "test_a_released_job_is_there_at_once_and_costs_no_attempt",
    "IgnoresPartitions": "test_a_worker_gets_jobs_of_its_partitions_only",
    "ForgivesExpiry": "test_an_expiry_on_the_last_attempt_fails_the_job",
    "DisownsFollowOns": "test_follow_on_jobs_know_their_parent_and_how_deep_they_are",
    "TakesOverFromTheStart": "test_the_next_claim_raises_the_epoch_it_came_with",
    "TakesOverWhatIsThere": "test_a_job_that_is_known_here_is_not_changed",
    "KeepsTheDeadOnTheRoll": "test_a_worker_silent_for_a_lease_is_not_present",
    "SigningOutGivesUp": "test_a_deregistered_worker_is_gone_at_once_and_keeps_its_leases",
}


def suite(
    folder: Path, module: str, parts: dict[str, str], extra: str = "", *, tb: str = "line", seed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run parts of the suite on the queues they are named after, as someone would who only has the package."""
    joined = "".join(JOINED.format(module=module, queue=queue) for queue in parts)
    (folder / "test_joined.py").write_text(HEAD + extra + joined)
    (folder / "none.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    chosen = " or ".join(f"(Test{queue} and ({part}))" for queue, part in parts.items())
    options = ["-q", "-rfE", f"--tb={tb}", "-p", "no:cacheprovider", "-c", str(folder / "none.ini"), "-k", chosen]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(folder)],
        cwd=ROOT,
        env=os.environ | dict([seed.split("=")] if seed else []),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def steps(output: str) -> list[str]:
    """The steps of the shortest walk that fails."""
    return re.findall(r"^[ E]*state\.(\w+)\(", output, re.MULTILINE)


def test_every_faulty_queue_fails_the_test_that_says_why(tmp_path: Path) -> None:
    parts = {queue: f"not reference and ({caught_by})" for queue, caught_by in CAUGHT_BY.items()}
    done = suite(tmp_path, "tests.media.broken_queues", parts)
    assert set(re.findall(r"^FAILED .*::Test(\w+)::", done.stdout, re.MULTILINE)) == set(CAUGHT_BY), done.stdout
    assert "error" not in done.stdout.splitlines()[-1], done.stdout


def test_a_faulty_queue_does_not_keep_up_with_the_reference(tmp_path: Path) -> None:
    done = suite(tmp_path, "tests.media.broken_queues", {"CountsReleases": FIXED}, NOT_SHORTENED)
    assert "1 failed" in done.stdout, done.stdout + done.stderr


def test_a_queue_that_is_right_after_a_listing_only_does_not_keep_up(tmp_path: Path) -> None:
    done = suite(tmp_path, "tests.media.broken_queues", {"CountsWhenListed": FIXED}, NOT_SHORTENED)
    assert "1 failed" in done.stdout, done.stdout + done.stderr


def test_a_queue_whose_openings_know_too_little_of_each_other_does_not_keep_up(tmp_path: Path) -> None:
    opened = """
class OneQueue(OneQueue):
    def __init__(self, opening):
        super().__init__(MemoryQueue)
        self._opening = opening

    async def open(self):
        return self._opening(self._queue)
"""
    extra = "from longshore.media.memory import MemoryQueue\n" + opened + NOT_SHORTENED
    done = suite(tmp_path, "tests.media.broken_queues", {"KnowsWhatItSubmitted": FIXED}, extra)
    assert "1 failed" in done.stdout, done.stdout + done.stderr


def test_a_fresh_walk_that_fails_says_how_to_repeat_it(tmp_path: Path) -> None:
    parts = {"CountsReleases": "fresh_walks"}
    first = suite(tmp_path, "tests.media.broken_queues", parts, NOT_SHORTENED, tb="short")
    # Some versions of Hypothesis print a note twice.
    (seed,) = set(re.findall(r"set (LONGSHORE_TEST_SEED=\d+)$", first.stdout, re.MULTILINE))
    again = suite(tmp_path, "tests.media.broken_queues", parts, NOT_SHORTENED, tb="short", seed=seed)
    assert steps(again.stdout) == steps(first.stdout) != []
    assert seed in again.stdout


def test_a_faultless_queue_passes_without_any_setting_of_this_project(tmp_path: Path) -> None:
    part = "stale or released or partitions or expiry or taken or roll"
    done = suite(tmp_path, "longshore.media.memory", {"MemoryQueue": part})
    assert done.returncode == 0, done.stdout + done.stderr
