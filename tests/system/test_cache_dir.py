"""Where caches lie on each system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from longshore.system.cache_dir import cache_dir, user_cache_dir


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "folder"), [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "AppData/Local")]
)
def test_each_system_has_its_own_folder(
    monkeypatch: pytest.MonkeyPatch, home: Path, platform: str, folder: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert user_cache_dir() == home / folder
    assert cache_dir() == home / folder / "longshore"


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_variable_counts_for_longshore_on_every_system_and_for_others_on_none(
    monkeypatch: pytest.MonkeyPatch, home: Path, platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "elsewhere"))
    assert cache_dir() == home / "elsewhere" / "longshore"
    assert home / "elsewhere" not in user_cache_dir().parents


def test_an_empty_variable_counts_as_none(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_dir() == home / ".cache" / "longshore"


def test_windows_says_where_its_folder_is(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(home / "local"))
    assert user_cache_dir() == home / "local"
