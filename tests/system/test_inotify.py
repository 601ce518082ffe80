"""New names in a folder are told where the system tells them."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from longshore.system.inotify import watch_folders


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="only Linux has inotify")
def test_linux_tells_of_a_new_name(tmp_path: Path) -> None:
    told = watch_folders([str(tmp_path)])
    assert told is not None
    assert select.select([told], [], [], 0)[0] == []
    (tmp_path / "new").touch()
    assert select.select([told], [], [], 60)[0] == [told]
    os.close(told)


def test_windows_tells_nothing(windows: None, tmp_path: Path) -> None:
    assert watch_folders([str(tmp_path)]) is None
