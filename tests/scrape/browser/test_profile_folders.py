"""The folders of killed processes are removed, and no others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.scrape.browser.profile_folders import new_folder, remove_folder

NOBODY = 2**22 + 1
"""No process has this id: it is above the highest possible one."""


def test_old_folders_of_the_dead_are_removed_when_a_new_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = tmp_path / f"longshore-browser-{NOBODY}-a"
    young = tmp_path / f"longshore-browser-{NOBODY}-b"
    alive = tmp_path / f"longshore-browser-{os.getppid()}-c"
    foreign = tmp_path / "longshore-browser-notes"
    for folder in (dead, young, alive, foreign):
        folder.mkdir()
        (folder / "profile").write_text("x")
    for folder in (dead, alive, foreign):
        os.utime(folder, (0, 0))

    made = new_folder()

    assert {path.name for path in tmp_path.iterdir()} == {young.name, alive.name, foreign.name, Path(made).name}
    remove_folder(made)
    assert not Path(made).exists()
