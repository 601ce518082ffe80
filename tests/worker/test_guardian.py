"""The guardian ends what carries its worker's mark, and nothing else on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.windows import become_windows

from longshore.worker.children import guardian
from longshore.worker.children.guardian import MARK, end_tree


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], env=os.environ | {MARK: "worker-x/12"}, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_without_a_mark_nothing_is_looked_for() -> None:
    # Never tried for real: it would be the end of every process of this user.
    with pytest.raises(ValueError, match="The mark is empty"):
        guardian._marked("")


def test_a_mark_is_not_mistaken_for_one_that_begins_alike(stranger: subprocess.Popen[bytes]) -> None:
    end_tree([], "worker-x/1")
    end_tree([], "worker")
    assert stranger.poll() is None
    end_tree([], "worker-x")
    assert stranger.wait(timeout=60) < 0


def test_a_process_whose_program_is_just_being_started_is_found_too(
    stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # For a moment Linux shows neither environment nor arguments of such a process.
    looks: list[str] = []
    environ, cmdline = psutil.Process.environ, psutil.Process.cmdline

    def environ_later(process: psutil.Process) -> dict[str, str]:
        if process.pid != stranger.pid:
            return environ(process)
        looks.append("environment")
        return {} if len(looks) < 3 else {MARK: "worker-x/12"}

    def no_arguments(process: psutil.Process) -> list[str]:
        return [] if process.pid == stranger.pid else cmdline(process)

    monkeypatch.setattr(psutil.Process, "environ", environ_later)
    monkeypatch.setattr(psutil.Process, "cmdline", no_arguments)
    monkeypatch.setattr(guardian, "STARTING_SECONDS", 60)
    end_tree([], "worker-x")
    assert stranger.wait(timeout=60) < 0
    assert len(looks) >= 3


def test_a_process_with_the_number_of_an_earlier_one_is_found_too(
    stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Earlier(psutil.Process):
        def is_running(self) -> bool:
            return False

    monkeypatch.setattr(guardian, "STARTING_SECONDS", 60)
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([Earlier(stranger.pid)]))
    end_tree([], "worker-x")
    assert stranger.wait(timeout=60) < 0


def test_on_windows_which_has_no_groups_the_processes_are_killed_one_by_one(
    stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    become_windows(monkeypatch, guardian)
    end_tree([stranger.pid], "worker-x")
    assert stranger.wait(timeout=60) < 0


def test_a_worker_that_dies_before_its_first_line_harms_no_other_process(
    stranger: subprocess.Popen[bytes],
) -> None:
    command = [sys.executable, "-P", str(Path(guardian.__file__)), "worker-y"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
    assert stranger.poll() is None
