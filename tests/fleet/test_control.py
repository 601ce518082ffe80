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
from longshore.fleet.supervise.control import FleetControl, Running
from longshore.fleet.supervise.supervisor import Stop


def own(**changes: object) -> Running:
    return msgspec.structs.replace(Running(pid=os.getpid(), run="r", workers=3), **changes)


def test_the_file_is_there_while_the_fleet_is(tmp_path: Path) -> None:
    control = FleetControl(tmp_path)
    assert control.read() is None
    with control.held("r", 3):
        assert control.read() == own()
    assert control.read() is None
    # The lock's file stays, and means nothing.
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.lock"]
    assert not control.alive()


def test_a_second_fleet_in_the_folder_is_refused(tmp_path: Path) -> None:
    control = FleetControl(tmp_path)
    with control.held("r", 3), pytest.raises(UsageError, match=r"(?s)3 workers is at work .* run r\..*longshore stop"):
        control.check_free()


def test_what_a_killed_fleet_left_behind_keeps_nobody_from_starting(tmp_path: Path) -> None:
    control = FleetControl(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    control.path.write_bytes(msgspec.json.encode(own(pid=child.pid)))
    control.request(Stop.RELEASE)
    with control.held("r", 1):
        assert control.read() == own(workers=1)
        assert control.requested() is Stop.NOT


def test_a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it(tmp_path: Path) -> None:
    control = FleetControl(tmp_path)
    control.path.write_bytes(msgspec.json.encode(own()))
    assert not control.alive()
    control.check_free()


def test_a_clock_that_is_set_does_not_hide_the_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = FleetControl(tmp_path)
    with control.held("r", 3):
        began = psutil.Process().create_time()
        monkeypatch.setattr(psutil.Process, "create_time", lambda _: began + 3600)
        with pytest.raises(UsageError, match="at work in this folder already"):
            control.check_free()


def test_a_fleet_whose_file_was_removed_still_has_the_folder(tmp_path: Path) -> None:
    control = FleetControl(tmp_path)
    with control.held("r", 3):
        control.path.unlink()
        assert control.alive()
        with pytest.raises(UsageError, match=r"A fleet is at work .*\n`longshore stop` drains it;"):
            FleetControl(tmp_path).check_free()
        with pytest.raises(UsageError, match="at work in this folder already"), FleetControl(tmp_path).held("r", 1):
            pass
        assert control.alive()


HOLD = """
import pathlib, sys
from longshore.errors import UsageError
from longshore.fleet.supervise.control import FleetControl
sys.stdin.readline()
try:
    with FleetControl(pathlib.Path(sys.argv[1])).held("r", 1):
        print("held", flush=True)
        sys.stdin.readline()
except UsageError:
    print("refused", flush=True)
"""


def test_of_fleets_that_start_at_the_same_moment_one_is_let(tmp_path: Path) -> None:
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("start\n")
        rival.stdin.flush()
    said = [rival.stdout.readline().strip() for rival in rivals if rival.stdout is not None]
    for rival in rivals:
        rival.communicate("\n")
    assert sorted(said) == ["held", "refused", "refused", "refused"]


def test_a_fleet_that_was_killed_has_the_folder_no_more(tmp_path: Path) -> None:
    control = FleetControl(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("start\n")
        process.stdin.flush()
        assert process.stdout.readline() == "held\n"
        assert control.alive()
        process.kill()
    assert not control.alive()
    assert control.read() == own(pid=process.pid, workers=1)
    with control.held("r", 3):
        assert control.read() == own()


@pytest.mark.parametrize(
    "content",
    [b"{", b'{"pid": -1, "run": null, "workers": 1}', b'{"pid": 1, "run": "\xff", "workers": 1}', b"\xff\xfe", b""],
)
def test_a_file_that_makes_no_sense_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    control = FleetControl(tmp_path)
    control.path.write_bytes(content)
    assert control.read() is None
    control.check_free()
    with control.held("r", 3):
        assert control.read() == own()


def test_a_request_to_stop_is_found(tmp_path: Path) -> None:
    control = FleetControl(tmp_path)
    assert control.requested() is Stop.NOT
    control.request(Stop.DRAIN)
    assert control.requested() is Stop.DRAIN
    control.request(Stop.RELEASE)
    assert control.requested() is Stop.RELEASE


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match=r"fleet\.lock cannot be written"), FleetControl(tmp_path).held("r", 1):
        pass
