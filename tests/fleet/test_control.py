"""How a fleet is found and asked to stop from another terminal (B7)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from longshore.errors import UsageError
from longshore.fleet.control import Control, Running
from longshore.fleet.supervisor import Stop


def own(**changes: object) -> Running:
    process = psutil.Process()
    running = Running(pid=process.pid, began=process.create_time(), run="r", workers=3)
    return msgspec.structs.replace(running, **changes)


def test_the_file_is_there_while_the_fleet_is(tmp_path: Path) -> None:
    control = Control(tmp_path)
    assert control.read() is None
    with control.held("r", 3):
        assert control.read() == own()
    assert control.read() is None
    assert list(tmp_path.iterdir()) == []


def test_a_second_fleet_in_the_folder_is_refused(tmp_path: Path) -> None:
    control = Control(tmp_path)
    with control.held("r", 3), pytest.raises(UsageError, match=r"(?s)3 workers is at work .* run r\..*longshore stop"):
        control.check_free()


def test_what_a_killed_fleet_left_behind_keeps_nobody_from_starting(tmp_path: Path) -> None:
    control = Control(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    control.path.write_bytes(msgspec.json.encode(own(pid=child.pid)))
    control.request(Stop.RELEASE)
    with control.held("r", 1):
        assert control.read() == own(workers=1)
        assert control.requested() is Stop.NOT


def test_a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it() -> None:
    assert own().alive
    assert not own(began=own().began - 60).alive


def test_a_request_to_stop_is_found(tmp_path: Path) -> None:
    control = Control(tmp_path)
    assert control.requested() is Stop.NOT
    control.request(Stop.DRAIN)
    assert control.requested() is Stop.DRAIN
    control.request(Stop.RELEASE)
    assert control.requested() is Stop.RELEASE


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.path.write_text("{")
    assert control.read() is None
    with control.held(None, 1):
        assert control.read() is not None


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match=r"fleet\.json cannot be written"), Control(tmp_path).held("r", 1):
        pass
