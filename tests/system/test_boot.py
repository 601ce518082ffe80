"""The start of the machine, as its processes see it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from longshore.system.boot import boot_id, boottime


def test_all_processes_of_a_machine_agree_on_its_start() -> None:
    code = "from longshore.system.boot import boot_id; print(boot_id())"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == boot_id()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other sources")
def test_the_kernel_names_its_start() -> None:
    assert len(boot_id()) == 36


def test_a_system_that_does_not_tell_has_no_known_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise PermissionError

    monkeypatch.setattr("longshore.system.boot._boot_id", refuse)
    assert boot_id.__wrapped__() == ""


def test_the_time_since_the_start_is_no_less_than_the_time_awake() -> None:
    awake = time.monotonic()
    assert boottime() >= awake
