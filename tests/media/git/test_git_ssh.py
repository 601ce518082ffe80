"""A repository behind a real ssh server (A18)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.needing import needed
from tests.services.sshd import SshServer

from longshore.clock import SystemClock
from longshore.errors import QueueError
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import totals


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    with needed():
        running = SshServer(tmp_path)
    monkeypatch.setenv("PATH", str(running.bin), prepend=os.pathsep)
    with running:
        yield running


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


async def opened(server: SshServer, remote: Path, tmp_path: Path) -> GitQueue:
    return await GitQueue.open(server.url(remote), SystemClock(), tmp_path / "cache")


async def test_a_job_is_submitted_claimed_and_settled(server: SshServer, remote: Path, tmp_path: Path) -> None:
    queue = await opened(server, remote, tmp_path)
    await queue.submit([NewJob(run="r", kind="page", key="a", payload={})])
    (lease,) = await queue.claim(Want(worker=WorkerId.new()))
    assert await queue.settle([Settlement(lease, Completed("done"))]) == [True]
    assert totals(await queue.stats()).completed == 1
    await queue.close()


async def test_a_server_that_ssh_does_not_know_is_reported_with_its_message(
    server: SshServer, remote: Path, tmp_path: Path
) -> None:
    server.known.write_text("")
    with pytest.raises(QueueError, match=r"ssh does not know the server.*Host key verification failed.*by hand"):
        await opened(server, remote, tmp_path)


async def test_a_server_with_another_key_is_reported(server: SshServer, remote: Path, tmp_path: Path) -> None:
    server.known.write_text(f"[127.0.0.1]:{server.port} {server.key.with_suffix('.pub').read_text()}")
    with pytest.raises(QueueError, match=r"is not the one that ssh knows.*ssh-keygen -R"):
        await opened(server, remote, tmp_path)


async def test_a_key_that_the_server_does_not_know_is_reported(server: SshServer, remote: Path, tmp_path: Path) -> None:
    server.key.with_suffix(".pub").write_text("")
    with pytest.raises(QueueError, match=r"did not accept the login \(.*Permission denied \(publickey\).*ssh-add"):
        await opened(server, remote, tmp_path)


async def test_a_missing_repository_is_reported(server: SshServer, tmp_path: Path) -> None:
    with pytest.raises(QueueError, match=r"There is no git repository at .*nowhere.git"):
        await opened(server, tmp_path / "nowhere.git", tmp_path)
