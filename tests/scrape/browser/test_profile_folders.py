"""The folders of killed processes are removed, and no others: never one that another user planted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from longshore.scrape.browser.profile_folders import new_folder, note_profile, remove_folder
from longshore.system.private_files import user_name_suffix

NOBODY = 2**22 + 1
"""No process has this id: it is above the highest possible one."""


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that all users may write to."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    return shared


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "thesis.txt").write_text("years of work")
    return home


def test_old_folders_of_the_dead_are_removed_when_a_new_one_is_made() -> None:
    made = new_folder()
    own = Path(made).parent
    dead, young, alive, foreign = (own / name for name in (f"{NOBODY}-a", f"{NOBODY}-b", f"{os.getppid()}-c", "notes"))
    for folder in (dead, young, alive, foreign):
        folder.mkdir(0o700)
        (folder / "profile").write_text("x")
    for folder in (dead, alive, foreign):
        os.utime(folder, (0, 0))

    another = new_folder()

    kept = {young.name, alive.name, foreign.name, Path(made).name, Path(another).name}
    assert {path.name for path in own.iterdir()} == kept
    remove_folder(made)
    assert not Path(made).exists()


def test_a_planted_folder_in_the_shared_temporary_folder_deletes_nothing(shared: Path, home: Path) -> None:
    for name in (f"longshore-browser-{NOBODY}-x", f"longshore-browsers-{NOBODY}-x"):
        planted = shared / name
        planted.mkdir(0o700)
        (planted / "made-by-the-driver").symlink_to(home)
        os.utime(planted, (0, 0))

    new_folder()

    assert (home / "thesis.txt").exists()


def test_a_symbolic_link_in_place_of_our_folder_is_not_followed(shared: Path, home: Path) -> None:
    (home / f"{NOBODY}-old").mkdir()
    os.utime(home / f"{NOBODY}-old", (0, 0))
    (shared / f"longshore-browsers-{user_name_suffix()}").symlink_to(home)

    made = new_folder()

    assert home not in Path(made).resolve().parents
    assert {path.name for path in home.iterdir()} == {"thesis.txt", f"{NOBODY}-old"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_a_folder_that_others_may_write_to_is_not_used(shared: Path, home: Path) -> None:
    open_to_all = shared / f"longshore-browsers-{user_name_suffix()}"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / f"{NOBODY}-x").mkdir()
    (open_to_all / f"{NOBODY}-x" / "made-by-the-driver").symlink_to(home)
    os.utime(open_to_all / f"{NOBODY}-x", (0, 0))

    made = new_folder()

    assert open_to_all not in Path(made).parents
    assert Path(made).stat().st_mode & 0o077 == 0
    assert (home / "thesis.txt").exists()


def test_only_a_profile_of_the_driver_is_removed_with_its_folder(shared: Path, home: Path) -> None:
    profile = shared / "playwright_chromiumdev_profile-Ab12"
    profile.mkdir()
    first, second = new_folder(), new_folder()
    note_profile(first, str(profile))
    note_profile(second, str(home))

    remove_folder(first)
    remove_folder(second)

    assert not profile.exists()
    assert (home / "thesis.txt").exists()
    assert not Path(first).exists()
    assert not Path(second).exists()
