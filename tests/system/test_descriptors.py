"""Descriptors are opened and limited in the way of each system."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.windows import O_BINARY, STAND_INS

from longshore.system import descriptors


def test_what_is_written_is_read_again_unchanged(platform: str, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    written = descriptors.open_no_follow(path, os.O_WRONLY | os.O_CREAT)
    os.write(written, b"a\r\nb\n\x1a")
    os.close(written)
    opened = descriptors.open_binary(path, os.O_RDONLY)
    assert os.read(opened, 64) == b"a\r\nb\n\x1a"
    os.close(opened)


@pytest.mark.parametrize("opens", [descriptors.open_binary, descriptors.open_no_follow])
def test_windows_is_told_to_leave_line_ends_alone(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: Callable[[str, int], int]
) -> None:
    asked: list[int] = []

    def open_(path: str, flags: int, mode: int) -> int:
        asked.append(flags)
        return -1

    monkeypatch.setattr(STAND_INS["os"], "open", open_)
    opens(str(tmp_path / "file"), os.O_RDONLY)
    assert asked == [os.O_RDONLY | O_BINARY]


def test_a_symbolic_link_is_never_followed(platform: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="link") as refused:
        descriptors.open_no_follow(str(tmp_path / "link"), os.O_RDONLY)
    assert refused.value.errno == errno.ELOOP


def test_a_pipe_without_a_writer_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    opened = descriptors.open_no_follow(str(tmp_path / "pipe"), os.O_RDONLY)
    assert os.read(opened, 1) == b""
    os.close(opened)


def test_a_folder_is_synced_where_it_can_be_opened(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    descriptors.sync_folder(tmp_path)
    assert synced == ([str(tmp_path)] if platform == "posix" else [])


def test_a_descriptor_of_another_is_set_to_binary_on_windows(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[tuple[int, int]] = []
    msvcrt = ModuleType("msvcrt")
    vars(msvcrt)["setmode"] = lambda fd, mode: changed.append((fd, mode))
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    descriptors.set_binary(7)
    assert changed == ([] if platform == "posix" else [(7, O_BINARY)])


def test_a_pipe_can_be_kept_from_blocking_except_on_windows(platform: str) -> None:
    ends = os.pipe()
    descriptors.set_nonblocking(ends[1])
    assert os.get_blocking(ends[1]) is (platform == "windows")
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(("limit", "told"), [(300, 300), (resource.RLIM_INFINITY, sys.maxsize)])
def test_the_limit_of_open_files_is_told_where_there_is_one(
    platform: str, monkeypatch: pytest.MonkeyPatch, limit: int, told: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert descriptors.open_limit() == (told if platform == "posix" else None)


def test_the_limit_is_raised_to_what_is_granted(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    descriptors.raise_open_limit()
    assert asked == ([(4096, 4096)] if platform == "posix" else [])


def test_a_limit_that_is_named_but_not_granted_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    descriptors.raise_open_limit()
    assert descriptors.open_limit() == 256
