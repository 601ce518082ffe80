"""The guardian ends what carries its worker's mark, and nothing else on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.worker import guardian
from longshore.worker.guardian import MARK, end_tree


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], env=os.environ | {MARK: "worker-x/12"}, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_without_a_mark_nothing_is_looked_for() -> None:
    # Never tried for real: it would be the end of every process of this user.
    with pytest.raises(ValueError, match="without a mark"):
        guardian._marked("")


def test_a_mark_is_not_mistaken_for_one_that_begins_alike(stranger: subprocess.Popen[bytes]) -> None:
    end_tree([], "worker-x/1")
    end_tree([], "worker")
    assert stranger.poll() is None
    end_tree([], "worker-x")
    assert stranger.wait(timeout=60) < 0


def test_a_worker_that_dies_before_its_first_word_costs_nobody_else_anything(
    stranger: subprocess.Popen[bytes],
) -> None:
    command = [sys.executable, "-P", str(Path(guardian.__file__)), "worker-y"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
    assert stranger.poll() is None
