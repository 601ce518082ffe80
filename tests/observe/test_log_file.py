"""Log files: rotated without losing a line, private, one for each worker (B7)."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from longshore.observe import log_file as module
from longshore.observe.log_file import KEPT, LogFile, own_log_file
from longshore.observe.log_tail import LogFollower, last_lines, log_files


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Rotate at this size."""
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    return 100


def test_a_full_file_is_rotated_and_no_line_is_lost_or_written_twice(tmp_path: Path, small: int) -> None:
    log = LogFile(tmp_path / "logs" / "w.log")
    lines = [f"line {number:03}" for number in range(40)]
    for line in lines:
        log.write(f"{line}\n")
    log.close()
    files = [tmp_path / "logs" / f"w.log{suffix}" for suffix in (".3", ".2", ".1", "")]
    assert all(path.stat().st_size <= small + 9 for path in files)
    kept = "".join(path.read_text() for path in files).splitlines()
    assert kept == lines[-len(kept) :]
    assert len(kept) > 30


def test_only_so_many_earlier_files_are_kept(tmp_path: Path, small: int) -> None:
    log = LogFile(tmp_path / "w.log")
    for number in range(small):
        log.write(f"line {number:03}\n")
    log.close()
    assert len(list(tmp_path.iterdir())) == KEPT + 1


def test_no_other_user_can_read_a_log(tmp_path: Path, small: int) -> None:
    log = LogFile(tmp_path / "logs" / "w.log")
    for number in range(small):
        log.write(f"line {number}\n")
    log.close()
    folder = tmp_path / "logs"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_what_goes_to_standard_error_follows_the_rotation(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    code = f"""
import os, sys
from pathlib import Path
from longshore.observe import log_file
log_file.MOST_BYTES = 50
log = log_file.LogFile(Path({str(path)!r}), is_stderr=True)
log.write("x" * 60 + "\\n")
log.write("the second file\\n")
os.write(2, b"a traceback\\n")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert path.read_text() == "the second file\na traceback\n"


def test_a_full_disk_is_told_once_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, told = LogFile(tmp_path / "w.log"), list[OSError]()
    log.complain = told.append

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    log.write("a\n")
    log.write("b\n")
    monkeypatch.undo()
    log.close()
    assert [error.errno for error in told] == [28]


def test_workers_that_run_at_once_have_files_of_their_own_and_later_ones_take_them_again(tmp_path: Path) -> None:
    first, second, named = own_log_file(tmp_path, None), own_log_file(tmp_path, None), own_log_file(tmp_path, "a/b 1")
    assert [log.path.name for log in (first, second, named)] == [
        "worker_single.log",
        "worker_single_2.log",
        "worker_a_b_1.log",
    ]
    first.close()
    third = own_log_file(tmp_path, None)
    assert third.path == first.path
    for log in (second, named, third):
        log.close()


def test_the_first_line_is_the_command_without_its_secrets(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "w.log")
    log.begin(["work", "a file.py", "--queue", "postgresql://anna:hunter22@127.0.0.1/jobs"])
    log.close()
    text = (tmp_path / "w.log").read_text()
    assert "longshore work 'a file.py' --queue" in text
    assert "hunter22" not in text


def test_a_follower_reads_on_in_the_new_file(tmp_path: Path, small: int) -> None:
    log = LogFile(tmp_path / "w.log")
    log.write("before\n")
    follower = LogFollower(log.path)
    seen = []
    for number in range(small):
        log.write(f"line {number}\n")
        seen += list(follower.new_lines())
    assert seen == [f"line {number}" for number in range(small)]
    follower.close()
    log.close()


def test_lines_are_shown_masked(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    path.write_text("one\npassword=hunter22\n")
    assert last_lines(path, 1) == ["password=***"]
    follower = LogFollower(path, from_start=True)
    assert list(follower.new_lines()) == ["one", "password=***"]
    follower.close()


def test_a_log_is_found_by_its_number_or_name(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("worker_0.log", "worker_10.log", "fleet.log", "worker_0.log.1"):
        (folder / name).touch()
    assert {path.name for path in log_files(tmp_path)} == {"worker_0.log", "worker_10.log", "fleet.log"}
    for wanted in ("0", "worker 0", "worker_0"):
        assert [path.name for path in log_files(tmp_path, wanted)] == ["worker_0.log"]
    assert [path.name for path in log_files(tmp_path, "fleet")] == ["fleet.log"]
