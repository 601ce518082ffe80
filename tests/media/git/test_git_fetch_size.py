"""A remote can send any amount: a fetch ends before it fills the disk, and its messages do not fill the memory."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.linear_time import assert_linear
from tests.media.git.test_git_hostile import git, put
from tests.media.git.test_git_silence import the_git

from longshore.clock import SystemClock
from longshore.errors import QueueError, QueueFullError
from longshore.job import NewJob
from longshore.media.git import GitQueue
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.sync import git_command
from longshore.media.git.sync.faults import lost_race, translate

MEGABYTE = 1 << 20


def with_free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let the disk look as if it has this many bytes of free space."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=size))


@pytest.mark.parametrize("file", ["objects/pack/tmp_pack_a", "objects/ab/tmp_obj_a"])
def test_a_fetch_without_end_is_ended_and_its_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    program = the_git(
        tmp_path, f"echo begun >&2; while :; do head -c {MEGABYTE} /dev/zero >> '{path}'; sleep 0.05; done", monkeypatch
    )
    with_free(monkeypatch, 2 * MEGABYTE)
    with pytest.raises(QueueFullError, match=r"more than half of the free space .* MB by now.* XDG_CACHE_HOME"):
        program.attempt("fetch", "somewhere")
    assert not path.exists()


def test_files_that_were_there_before_a_fetch_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = tmp_path / "objects" / "pack" / "pack-a.pack"
    pack.parent.mkdir(parents=True)
    pack.write_bytes(bytes(4 * MEGABYTE))
    subprocess.run(["touch", "-d", "2020-01-01", str(pack)], check=True)
    program = the_git(tmp_path, "echo begun >&2; echo done", monkeypatch)
    monkeypatch.setattr(git_command, "_LOOK_SECONDS", 0.0)
    with_free(monkeypatch, MEGABYTE)
    assert program.attempt("fetch", "somewhere") == (0, "done\nbegun")
    assert pack.exists()


async def test_a_queue_with_a_huge_file_of_a_collaborator_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = tmp_path / "remote.git"
    git(remote, "init", "--quiet", "--bare")
    url = f"git+file://{remote}"
    queue = await GitQueue.open(url, SystemClock(), tmp_path / "cache")
    await queue.submit([NewJob(run="r", kind="page", key="k", payload={})])
    await queue.close()
    put(remote, "huge", random.randbytes(24 * MEGABYTE))
    # A remote that sends slowly: the fetch must not end before the first look at its size.
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import subprocess, sys, time\n"
        "with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE) as sending:\n"
        f"    while piece := sending.stdout.read({MEGABYTE}):\n"
        "        sys.stdout.buffer.write(piece)\n"
        "        time.sleep(0.1)\n"
    )
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[uploadpack]\n\tpackObjectsHook = "{sys.executable} {slow}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setattr(git_command, "_LOOK_SECONDS", 0.0)
    with_free(monkeypatch, MEGABYTE)
    with pytest.raises(QueueFullError, match="more than half of the free space"):
        await GitQueue.open(url, SystemClock(), tmp_path / "another-cache")
    left = sum(path.stat().st_size for path in (tmp_path / "another-cache").rglob("*") if path.is_file())
    assert left < MEGABYTE


def test_a_remote_that_lists_branches_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_command, "_MOST_OUTPUT", MEGABYTE)
    program = the_git(tmp_path, "exec yes", monkeypatch)
    with pytest.raises(QueueError, match=r"lists more branches than any queue has\. Give the queue a repository"):
        program.attempt("ls-remote", "somewhere")


def test_of_endless_messages_only_the_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = the_git(tmp_path, "yes 'remote: hello' | head -c 3000000 >&2; echo 'fatal: the end' >&2", monkeypatch)
    _, output = program.attempt("fetch", "somewhere")
    assert output.rstrip().endswith("fatal: the end")
    assert len(output) < 100_000


@pytest.mark.parametrize(
    "unit", ["permission to ", "repository ", "host key ", "no ", "a", "remote: ", "\n", "fatal: \n"]
)
def test_messages_of_a_remote_are_read_in_linear_time(unit: str) -> None:
    location = RepositoryLocation("git+ssh://git@host/queue.git")
    assert_linear(lambda text: translate(text, location), lambda n: unit * (n // len(unit)))
    assert_linear(lost_race, lambda n: unit * (n // len(unit)))
