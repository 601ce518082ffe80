"""On a shared machine no other user reads the queue, the pages, the failures or the logs of a run."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from longshore.media import open_queue
from longshore.system.private_files import make_private

from .conftest import Shell

HANDLERS = """
from longshore import handler

@handler("page", retries=0)
def page(job, kit):
    kit.emit({"secret": job.payload["url"]})
    if "bad" in job.payload["url"]:
        raise ValueError("a secret")
"""


def mode(path: Path) -> int:
    """Return the permissions of a file or folder; Windows has none of this form, and its users are kept apart by it."""
    return stat.S_IMODE(path.stat().st_mode) & (0o777 if os.name == "posix" else 0)


def test_no_other_user_enters_the_folder_of_a_run(shell: Shell) -> None:
    shell.write("pages.py", HANDLERS)
    shell.write("urls.txt", "http://127.0.0.1:9/good\nhttp://127.0.0.1:9/bad\n")
    assert shell("run", "pages.py", "--urls-file", "urls.txt").returncode == 1
    folder = shell.folder / ".longshore"
    assert {"queue.db", "records", "bundles"} <= {path.name for path in folder.iterdir()}
    assert mode(folder) & 0o077 == 0
    assert mode(folder / "queue.db") & 0o077 == 0
    assert [path for path in (folder / "records").rglob("*") if mode(path) & 0o077] == []


@pytest.mark.parametrize("name", ["queue.db", "made/too/queue.db"])
def test_a_queue_in_another_folder_is_private_with_its_other_files(tmp_path: Path, name: str) -> None:
    async def make() -> None:
        queue = await open_queue(f"sqlite:///{tmp_path}/{name}")
        assert [path for path in (tmp_path / name).parent.glob("queue.db*") if mode(path) & 0o077] == []
        await queue.close()

    asyncio.run(make())


def test_a_folder_that_its_owner_opened_to_others_stays_open(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    make_private(shared / "made" / "here")
    assert (mode(shared), mode(shared / "made"), mode(shared / "made" / "here")) == (
        mode(shared) and 0o775,
        mode(shared) and 0o700,
        mode(shared) and 0o700,
    )


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError) as caught:
        make_private(tmp_path / "file" / "below")
    assert caught.value.filename == str(tmp_path / "file")
