"""Secrets of a git queue stay secret on a shared machine, and its repository runs no program of ours."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest
from tests.services.git_http import PASSWORD, USER, GitHttpServer

from longshore.clock import SystemClock
from longshore.job import new_job
from longshore.media.git import GitQueue
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.sync.git_command import environment


def arguments_of_started_processes() -> str:
    """Return the arguments of the processes below this one: other test processes start some with a password."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found.append(" ".join(process.cmdline()))
    return "\n".join(found)


async def test_no_process_shows_the_password_of_a_queue_in_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    answer = GitHttpServer._answer

    def look_and_answer(server: GitHttpServer, request: BaseHTTPRequestHandler) -> None:
        seen.append(arguments_of_started_processes())
        answer(server, request)

    monkeypatch.setattr(GitHttpServer, "_answer", look_and_answer)
    with GitHttpServer(tmp_path) as server:
        server.make("queue.git")
        queue = await GitQueue.open(server.url("queue.git"), SystemClock(), tmp_path / "cache")
        await queue.submit([new_job("page", {"n": 1}, run="r")])
        await queue.close()
    assert any("git" in arguments and "push" in arguments for arguments in seen)
    assert not any(PASSWORD in arguments or f"{USER}@" in arguments for arguments in seen)


@pytest.mark.parametrize("password", ["p@ss: w\u00f6rd/$(id)'\"", "plain"])
def test_git_asks_the_environment_for_the_login_before_any_helper_of_the_user(tmp_path: Path, password: str) -> None:
    from urllib.parse import quote

    location = RepositoryLocation(f"git+https://anna:{quote(password, safe='')}@host/queue.git")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text('[credential]\n\thelper = "!echo username=other; echo password=other"\n')
    answer = subprocess.run(
        ["git", "credential", "fill"],
        input=b"protocol=https\nhost=host\n\n",
        env={**environment(location.login), "HOME": str(home)},
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert f"username=anna\npassword={password}\n" in answer
    assert "other" not in answer


def test_a_user_name_alone_leaves_the_password_to_the_helpers_of_the_user(tmp_path: Path) -> None:
    location = RepositoryLocation("git+https://anna@host/queue.git")
    (tmp_path / ".gitconfig").write_text('[credential]\n\thelper = "!echo password=from-the-keyring; :"\n')
    answer = subprocess.run(
        ["git", "credential", "fill"],
        input=b"protocol=https\nhost=host\n\n",
        env={**environment(location.login), "HOME": str(tmp_path)},
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert "username=anna\npassword=from-the-keyring\n" in answer


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    folder = tmp_path / "queue.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
    return folder


async def test_a_hook_that_a_collaborator_planted_in_a_shared_folder_does_not_run(remote: Path, tmp_path: Path) -> None:
    ran = tmp_path / "a-hook-ran"
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive"):
        hook = remote / "hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        hook.chmod(0o755)
    queue = await GitQueue.open(f"git+file://{remote}", SystemClock(), tmp_path / "cache")
    submitted = await queue.submit([new_job("page", {"n": 1}, run="r")])
    await queue.close()
    assert submitted.new == 1
    assert not ran.exists(), ran.read_text()
