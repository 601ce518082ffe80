"""A lock between processes, tried with real ones."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longshore.system.file_lock import PROBE_SECONDS, FileLock

HOLD = """
import sys
from pathlib import Path
from longshore.system.file_lock import FileLock

lock = FileLock(Path(sys.argv[1]))
print(lock.acquire(timeout=0), flush=True)
sys.stdin.read()
"""

COUNT = """
import sys
from pathlib import Path
from longshore.system.file_lock import FileLock

lock, counter = FileLock(Path(sys.argv[1])), Path(sys.argv[2])
for _ in range(200):
    with lock:
        counter.write_text(str(int(counter.read_text()) + 1))
"""


@contextmanager
def another(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that tries once for the lock and then waits until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process
        process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_lock_of_another_process_is_refused_and_seen(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    with another(lock.path) as process:
        assert said(process) == "True"
        assert lock.is_held()
        assert not lock.acquire(timeout=0)
    assert not lock.is_held()
    assert lock.acquire(timeout=PROBE_SECONDS)
    with another(lock.path) as process:
        assert said(process) == "False"
    lock.release()
    with another(lock.path) as process:
        assert said(process) == "True"


def test_a_lock_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    with another(lock.path) as process:
        assert said(process) == "True"
        process.kill()
        process.wait()
        assert not lock.is_held()
        assert lock.acquire(timeout=0)
    lock.release()


def test_waiting_without_limit_ends_when_the_holder_dies(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    taken: list[bool] = []
    with another(lock.path) as process:
        assert said(process) == "True"
        waiting = threading.Thread(target=lambda: taken.append(lock.acquire()))
        waiting.start()
        assert taken == []
        process.kill()
        waiting.join()
    assert taken == [True]
    lock.release()


def test_only_one_process_at_a_time_is_in_the_block(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path / "lock"), str(counter)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert counter.read_text() == "600"


def test_two_locks_on_one_file_exclude_each_other_in_one_process_too(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    with one:
        assert other.is_held()
        assert not other.acquire(timeout=0)
    assert not other.is_held()
    with one:
        assert other.is_held()
    one.release()


def test_a_lock_is_released_after_an_error(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.is_held()
    lock.release()


def test_a_file_that_is_not_there_is_not_locked_and_not_made_by_looking(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert not lock.is_held()
    assert not lock.path.exists()
    lock.release()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "missing" / "lock").acquire()


@pytest.mark.skipif(sys.platform == "win32", reason="no permissions, no inherited files")
def test_a_child_that_inherits_the_open_file_holds_the_lock(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", private=True)
    assert lock.acquire(timeout=0)
    assert stat.S_IMODE(lock.path.stat().st_mode) == 0o600
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=(lock.fileno(),)
    ) as child:
        lock.release()
        assert lock.is_held()
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    assert not lock.is_held()
    with pytest.raises(ValueError, match="is not open"):
        lock.fileno()
