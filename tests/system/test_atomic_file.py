"""Atomic writes: the old content or the new, never a part of it, and nothing left behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from longshore.system.atomic_file import atomic_file, write_atomically
from longshore.system.descriptors import sync_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_content_replaces_the_old_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "file.json"
    write_atomically(target, b"old and longer")
    write_atomically(target, b"new", durable=True)
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["file.json"]


def test_an_error_while_writing_keeps_the_old_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def fail() -> None:
        with atomic_file(target) as part:
            part.write_bytes(b"half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_an_error_of_the_disk_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no room"):
        write_atomically(target, b"new", durable=True)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_process_that_is_killed_while_writing_leaves_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    code = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from longshore.system.atomic_file import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as part:\n"
        "    part.write_bytes(b'half of the n')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"


def test_durable_content_is_synced_before_it_replaces_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    seen: list[tuple[bytes, bytes]] = []

    def sync(opened: int) -> None:
        seen.append((os.pread(opened, 100, 0), target.read_bytes()))

    monkeypatch.setattr(os, "fsync", sync)
    write_atomically(target, b"not durable")
    assert seen == []
    write_atomically(target, b"new", durable=True)
    assert seen == [(b"new", b"not durable")]


@pytest.mark.skipif(sys.platform == "win32", reason="no permissions")
def test_permissions_are_those_of_the_replaced_file_or_of_any_new_file(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    target = tmp_path / "file"
    write_atomically(target, b"first")
    assert mode(target) == mode(usual)
    target.chmod(0o640)
    write_atomically(target, b"second")
    assert mode(target) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="no permissions")
def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"secret", private=True)
    assert mode(tmp_path / "file") == 0o600


def test_two_writers_of_one_target_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with atomic_file(target) as one, atomic_file(target) as other:
        assert one != other
        one.write_bytes(b"one")
        other.write_bytes(b"other")
    assert target.read_bytes() == b"one"
    assert names(tmp_path) == ["file"]


def test_the_caller_may_name_the_unfinished_file_and_put_it_in_place(tmp_path: Path) -> None:
    placed: list[bytes] = []
    part = tmp_path / "unfinished"
    with atomic_file(tmp_path / "file", part=part, place=lambda path: placed.append(path.read_bytes())) as path:
        assert path == part
        path.write_bytes(b"new")
    assert placed == [b"new"]
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be synced there")
def test_a_folder_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda opened: synced.append(stat.S_ISDIR(os.fstat(opened).st_mode)))
    sync_folder(tmp_path)
    assert synced == [True]
