"""Each failure of a remote ends in one message that names the cause and the fix, and loses nothing (A11, A18)."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.services.git_http import PASSWORD, GitHttpServer

from longshore.clock import ManualClock, SystemClock
from longshore.errors import (
    ForeignQueueError,
    MissingQueueError,
    NewerSchemaError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    SettingsError,
)
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.objects.mirror import Mirror
from longshore.media.git.sync import faults
from longshore.media.git.sync.git_command import GitCommand
from longshore.outcome import Completed, Settlement
from longshore.queue import Reaped, Submitted, totals

LEASE = timedelta(seconds=60)


def jobs(*keys: str) -> list[NewJob]:
    return [NewJob(run="r", kind="page", key=key, payload={}) for key in keys]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttpServer]:
    with GitHttpServer(tmp_path) as server:
        server.make("queue.git")
        yield server


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


async def test_a_repository_that_is_away_for_a_moment_can_be_used_again(remote: Path, tmp_path: Path) -> None:
    queue = await opened(f"git+file://{remote}", tmp_path)
    try:
        await queue.submit(jobs("a"))
        shutil.move(remote, tmp_path / "elsewhere")
        with pytest.raises(MissingQueueError, match="no git repository"):
            await queue.submit(jobs("b"))
        shutil.move(tmp_path / "elsewhere", remote)
        assert await queue.submit(jobs("b")) == Submitted(1, 0)
    finally:
        await queue.close()


async def opened(url: str, tmp_path: Path, clock: ManualClock | None = None) -> GitQueue:
    return await GitQueue.open(url, clock or SystemClock(), tmp_path / "cache")


async def test_without_git_the_message_says_how_to_get_it(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(QueueError, match=r"'git' was not found.*Install it"):
        await opened(f"git+file://{remote}", tmp_path)


async def test_a_wrong_address_is_named(tmp_path: Path) -> None:
    with pytest.raises(QueueError, match=r"no git repository at 'git\+file:///nowhere/at/all.git'.*git init --bare"):
        await opened("git+file:///nowhere/at/all.git", tmp_path)


async def test_a_repository_the_server_does_not_know_is_named(server: GitHttpServer, tmp_path: Path) -> None:
    with pytest.raises(QueueError, match=r"no git repository at .*/other.git") as caught:
        await opened(server.url("other.git"), tmp_path)
    assert PASSWORD not in str(caught.value)


async def test_a_wrong_password_is_refused_without_a_prompt_and_never_shown(
    server: GitHttpServer, tmp_path: Path
) -> None:
    with pytest.raises(QueueError, match=r"did not accept the login.*git ls-remote") as caught:
        await opened(server.url("queue.git", password="sesame"), tmp_path)
    assert "sesame" not in str(caught.value)


async def test_a_server_that_is_down_is_a_retryable_error(server: GitHttpServer, tmp_path: Path) -> None:
    server.stop()
    with pytest.raises(QueueUnavailableError, match=r"does not answer now.*Check the network") as caught:
        await opened(server.url("queue.git"), tmp_path)
    assert PASSWORD not in str(caught.value)
    server.start()
    queue = await opened(server.url("queue.git"), tmp_path)
    await queue.close()


@pytest.mark.parametrize(("status", "words"), [(503, "does not answer now"), (429, "limits the rate of requests")])
async def test_a_server_in_trouble_is_unavailable_and_nothing_is_lost(
    server: GitHttpServer, tmp_path: Path, status: int, words: str
) -> None:
    queue = await opened(server.url("queue.git"), tmp_path)
    await queue.submit(jobs("a", "b"))
    (lease,) = await queue.claim(Want(worker=WorkerId.new(), limit=1))
    server.fail_with = status
    settlement = [Settlement(lease, Completed("done"))]
    with pytest.raises(QueueUnavailableError, match=words):
        await queue.settle(settlement)
    server.fail_with = None
    assert await queue.settle(settlement) == [True]
    assert totals(await queue.stats()).completed == 1
    await queue.close()


async def test_after_an_hour_offline_held_jobs_are_settled_and_no_worker_was_reaped(
    server: GitHttpServer, tmp_path: Path
) -> None:
    clock = ManualClock()
    queue = await opened(server.url("queue.git"), tmp_path, clock)
    observer = await GitQueue.open(server.url("queue.git"), clock, tmp_path / "elsewhere")
    await queue.submit(jobs("a", "b"))
    held, stale = await queue.claim(Want(worker=WorkerId.new("anna"), limit=2, lease=LEASE))
    assert await observer.reap() == Reaped()
    server.fail_with = 503
    for call in (queue.settle([Settlement(held, Completed())]), observer.claim(Want(worker=WorkerId.new()))):
        with pytest.raises(QueueUnavailableError):
            await call
    clock.advance(3600)
    server.fail_with = None
    # The observer could not have seen a heartbeat, so the silence does not count against the worker.
    assert await observer.claim(Want(worker=WorkerId.new())) == []
    assert await observer.reap() == Reaped()
    assert await queue.settle([Settlement(held, Completed())]) == [True]
    clock.advance(61)
    assert await observer.reap() == Reaped(returned=1)
    assert await queue.settle([Settlement(stale, Completed())]) == [False]
    await observer.close()
    await queue.close()


async def test_a_user_who_may_not_read_gets_no_message_about_writing(server: GitHttpServer, tmp_path: Path) -> None:
    server.fail_with = 403
    with pytest.raises(QueueError, match=r"You may not read .*403.*whose login git uses") as caught:
        await opened(server.url("queue.git"), tmp_path)
    assert not isinstance(caught.value, ReadOnlyQueueError)


async def test_the_message_of_a_refusing_hook_of_the_server_is_shown(server: GitHttpServer, tmp_path: Path) -> None:
    hook = server.folder / "queue.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    queue = await opened(server.url("queue.git"), tmp_path)
    with pytest.raises(ReadOnlyQueueError, match=r"You may not write.*Ask its owner"):
        await queue.submit(jobs("a"))
    await queue.close()


def test_a_token_in_place_of_a_user_name_is_not_shown() -> None:
    location = RepositoryLocation("git+https://t0ken@host/team/queue.git")
    assert location.git_url == "https://host/team/queue.git"
    message = str(faults.translate("fatal: Authentication failed for 'https://t0ken@host/team/queue.git/'", location))
    assert "t0ken" not in location.shown + message
    assert RepositoryLocation("git+ssh://git@host/queue.git").shown == "git+ssh://git@host/queue.git"


def test_each_server_message_becomes_one_error() -> None:
    location = RepositoryLocation("git+https://anna:secret@host/team/queue.git")
    cases: list[tuple[str, type[QueueError]]] = [
        ("error: unable to write file: No space left on device\nfatal: unpack failed", QueueFullError),
        (
            "remote: Permission to team/queue.git denied to anna.\nfatal: The requested URL returned error: 403",
            ReadOnlyQueueError,
        ),
        (" ! [remote rejected] a -> longshore-1 (protected branch hook declined)", ReadOnlyQueueError),
        ("git@host: Permission denied (publickey).\nfatal: Could not read from remote repository.", QueueError),
        ("fatal: unable to access 'https://anna:secret@host/': Could not resolve host: host", QueueUnavailableError),
        ("fatal: the remote end hung up unexpectedly", QueueUnavailableError),
        ("error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502", QueueUnavailableError),
    ]
    for text, expected in cases:
        error = faults.translate(text, location)
        assert type(error) is expected, text
        assert "secret" not in str(error)
        assert "host/team/queue.git" in str(error)
        # The error must not promise a retry: only the caller knows whether there is one.
        assert "tried again" not in str(error)


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("Host key verification failed.", r"ssh does not know the server.*Connect once by hand"),
        ("git@host: Permission denied (publickey).", r"did not accept the login.*ssh-add"),
        ("kex_exchange_identification: Connection closed by remote host", r"does not answer now.*Check the network"),
        ("Bad owner or permissions on /home/anna/.ssh/config", r"does not answer now"),
    ],
)
def test_the_message_of_ssh_is_quoted_with_the_fix(line: str, fix: str) -> None:
    output = (
        f"** a greeting of the server **\n{line}\nfatal: Could not read from remote repository.\n\n"
        "Please make sure you have the correct access rights\nand the repository exists.\n"
    )
    message = str(faults.translate(output, RepositoryLocation("git+ssh://git@host/queue.git"), into=Path("mirror")))
    assert line in message
    assert "Please make sure" not in message
    assert re.search(fix, message), message


def test_a_server_with_a_changed_key_is_an_error_with_a_warning() -> None:
    output = (
        "@@@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@@@@@@@@\n"
        "Host key for host has changed and you have requested strict checking.\nHost key verification failed.\n"
    )
    message = str(faults.translate(output, RepositoryLocation("git+ssh://git@host/queue.git"), into=Path("mirror")))
    assert "is not the one that ssh knows" in message
    assert "ssh-keygen -R HOST" in message


@pytest.mark.parametrize(
    "url",
    [
        "git+https:///queue.git",
        "git+file://host/queue.git",
        "git+ssh://host",
        "git+file:///q.git?branch=x",
        "git+ext://sh",
    ],
)
async def test_a_url_that_names_no_repository_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="git"):
        await opened(url, tmp_path)


async def test_a_foreign_branch_named_longshore_is_not_changed(remote: Path, tmp_path: Path) -> None:
    commit = _commit(remote, "something else")
    _git(remote, "update-ref", "refs/heads/longshore", commit)
    with pytest.raises(ForeignQueueError, match=r"'longshore' .* is not one of Longshore's"):
        await opened(f"git+file://{remote}", tmp_path)
    assert _git(remote, "rev-parse", "longshore").strip() == commit


async def test_a_queue_of_a_newer_format_is_not_changed(remote: Path, tmp_path: Path) -> None:
    queue = await opened(f"git+file://{remote}", tmp_path)
    await queue.submit(jobs("a"))
    await queue.close()
    _put(remote, "longshore.json", b'{"format": 99}')
    with pytest.raises(NewerSchemaError, match="Upgrade Longshore"):
        await opened(f"git+file://{remote}", tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="a small disk can be mounted by root alone")
async def test_a_full_disk_loses_nothing(remote: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = _run("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small))
    if mounted.returncode != 0:
        pytest.skip("nothing may be mounted here")
    try:
        queue = await GitQueue.open(f"git+file://{remote}", SystemClock(), small)
        await queue.submit(jobs("a"))
        noise = os.urandom(3 << 20).hex()
        with pytest.raises(QueueFullError, match=r"is full.*Free some space"):
            await queue.submit([NewJob(run="r", kind="page", key="large", payload={"noise": noise})])
        assert await queue.submit(jobs("a", "b")) == Submitted(new=1, duplicates=1)
        await queue.close()
    finally:
        _run("umount", str(small))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="a small disk can be mounted by root alone")
async def test_a_full_disk_under_the_mirror_is_not_reported_as_the_remotes(remote: Path, tmp_path: Path) -> None:
    queue = await opened(f"git+file://{remote}", tmp_path)
    await queue.submit([NewJob(run="r", kind="page", key="large", payload={"noise": os.urandom(3 << 20).hex()})])
    await queue.close()
    small = tmp_path / "small"
    small.mkdir()
    if _run("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)).returncode != 0:
        pytest.skip("nothing may be mounted here")
    try:
        with pytest.raises(QueueFullError, match=rf"[Tt]he disk under '{small}/.*mirror.*XDG_CACHE_HOME"):
            await GitQueue.open(f"git+file://{remote}", SystemClock(), small)
    finally:
        _run("umount", str(small))


def test_a_cache_folder_that_cannot_be_made_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReadOnlyQueueError, match=rf"in the cache folder '{tmp_path}/file/git'.*set XDG_CACHE_HOME"):
        Mirror(RepositoryLocation("git+https://host/queue.git"), tmp_path / "file" / "git")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become another user")
def test_a_cache_folder_without_permission_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(ReadOnlyQueueError, match=r"cache folder .*Permission denied.*set XDG_CACHE_HOME"):
            Mirror(RepositoryLocation("git+https://host/queue.git"), tmp_path / "closed" / "git")
    finally:
        os.seteuid(0)


async def test_a_mirror_that_is_deleted_while_in_use_is_named(remote: Path, tmp_path: Path) -> None:
    queue = await opened(f"git+file://{remote}", tmp_path)
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(QueueError, match=rf"mirror of the repository, '{tmp_path}/cache/.*was deleted.*It is a cache"):
        await queue.submit(jobs("a"))
    await queue.close()


async def test_the_rest_of_a_mirror_that_was_deleted_while_in_use_is_in_nobodys_way(
    remote: Path, tmp_path: Path
) -> None:
    """A process that still ran wrote to the folder while it was being deleted."""
    queue = await opened(f"git+file://{remote}", tmp_path)
    await queue.submit(jobs("a"))
    await queue.close()
    (ready,) = (tmp_path / "cache").rglob("longshore-ready")
    ready.unlink()
    queue = await opened(f"git+file://{remote}", tmp_path)
    assert (await queue.submit(jobs("a", "b"))).new == 1
    await queue.close()
    assert not list((tmp_path / "cache").rglob("making-*"))


async def test_a_remote_that_died_in_a_push_leaves_nothing_half_done(server: GitHttpServer, tmp_path: Path) -> None:
    queue = await opened(server.url("queue.git"), tmp_path)
    await queue.submit(jobs("a"))
    seen = server.requests
    submission = asyncio.create_task(queue.submit(jobs("b", "c")))
    await asyncio.to_thread(server.wait_for_request, seen)
    server.stop()
    server.start()
    try:
        await submission
    except QueueUnavailableError:
        await queue.submit(jobs("b", "c"))
    assert totals(await queue.stats()).pending == 3
    await queue.close()


@pytest.mark.parametrize(("failures", "accepted"), [(1, True), (2, False)])
async def test_a_login_that_worked_before_is_tried_once_more(
    server: GitHttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, accepted: bool
) -> None:
    queue = await opened(server.url("queue.git"), tmp_path)
    await queue.submit(jobs("a"))
    attempt, failed = GitCommand.attempt, list[str]()

    def break_login(self: GitCommand, *arguments: str) -> tuple[int, str]:
        if arguments[0] == "push" and len(failed) < failures:
            failed.append("push")
            return 128, "fatal: Authentication failed for 'http://127.0.0.1/queue.git/'"
        return attempt(self, *arguments)

    monkeypatch.setattr(GitCommand, "attempt", break_login)
    if accepted:
        assert (await queue.submit(jobs("b"))).new == 1
    else:
        with pytest.raises(QueueError, match="did not accept the login"):
            await queue.submit(jobs("b"))
    await queue.close()


@pytest.mark.parametrize("arrives", [True, False], ids=["after it got through", "before it got through"])
async def test_a_push_that_is_killed_half_way_is_done_once_or_not_at_all(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    queue = await opened(f"git+file://{remote}", tmp_path)
    await queue.submit(jobs("a"))
    leases = await queue.claim(Want(worker=WorkerId.new()))
    attempt = GitCommand.attempt
    killed: list[str] = []

    def cut_off(self: GitCommand, *arguments: str) -> tuple[int, str]:
        if arguments[0] != "push" or killed:
            return attempt(self, *arguments)
        killed.append("push")
        if arrives:
            attempt(self, *arguments)
        return -9, ""

    monkeypatch.setattr(GitCommand, "attempt", cut_off)
    settlement = [Settlement(leases[0], Completed("once", tuple(jobs("b"))))]
    if arrives:
        assert await queue.settle(settlement) == [True]
    else:
        with pytest.raises(QueueUnavailableError):
            await queue.settle(settlement)
        assert totals(await queue.stats()).claimed == 1
        assert await queue.settle(settlement) == [True]
    assert await queue.settle(settlement) == [False]
    counts = totals(await queue.stats())
    assert (counts.completed, counts.pending) == (1, 1)
    await queue.close()


def _run(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, check=False, capture_output=True)


def _git(repository: Path, *arguments: str, given: bytes = b"") -> str:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "--git-dir", str(repository), *arguments],
        check=True,
        capture_output=True,
        input=given,
    ).stdout.decode()


def _commit(repository: Path, message: str) -> str:
    empty = _git(repository, "hash-object", "-t", "tree", "-w", "--stdin").strip()
    return _git(repository, "commit-tree", empty, "-m", message).strip()


def _put(repository: Path, name: str, content: bytes) -> None:
    """Commit a file to the root of the queue's branch, without Longshore."""
    blob = _git(repository, "hash-object", "-w", "--stdin", given=content).strip()
    rows = [row for row in _git(repository, "ls-tree", "longshore-1").splitlines() if not row.endswith(f"\t{name}")]
    rows.append(f"100644 blob {blob}\t{name}")
    tree = _git(repository, "mktree", given="\n".join(rows).encode()).strip()
    head = _git(repository, "rev-parse", "longshore-1").strip()
    commit = _git(repository, "commit-tree", tree, "-p", head, "-m", "by hand").strip()
    _git(repository, "update-ref", "refs/heads/longshore-1", commit)
