"""A remote that accepts and says nothing is given up in seconds, once for all the workers of a machine (A18)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import SystemClock
from longshore.errors import QueueUnavailableError
from longshore.media.git import GitQueue
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.objects import mirror
from longshore.media.git.objects.mirror import Mirror
from longshore.media.git.sync import git_command
from longshore.media.git.sync.git_command import GitCommand


class Mute:
    """Accepts connections, and never says a word."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections: list[socket.socket] = []
        self.called = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._closing:
            self.connections.append(self._socket.accept()[0])
            self.called.set()

    def close(self) -> None:
        # Who waits on a socket that is closed goes on waiting, and after a signal does so on whatever socket has its
        # number by then: the server of another test.
        self._closing = True
        with socket.create_connection(("127.0.0.1", self.port)):
            self._thread.join()
        self._socket.close()
        for each in self.connections:
            each.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    server = Mute()
    yield server
    server.close()


def patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(mirror, "SILENCE", timedelta(seconds=seconds))


def the_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> GitCommand:
    """git, played by a script."""
    (folder / "git").write_text(f'#!/bin/sh\ncase "$*" in *config*) exit 1;; esac\n{script}\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return GitCommand(folder, RepositoryLocation("git+ssh://git@host/queue.git"))


@pytest.mark.parametrize("scheme", ["git+http", "git+ssh"])
async def test_it_is_given_up_and_left_alone(
    mute: Mute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    patience(monkeypatch, 1)
    with pytest.raises(QueueUnavailableError, match=r"has not answered for \d+ s. Check the network") as caught:
        await GitQueue.open(f"{scheme}://git@127.0.0.1:{mute.port}/queue.git", SystemClock(), tmp_path)
    assert "again" not in str(caught.value)
    (connection,) = mute.connections
    connection.settimeout(30)
    # What git had started to do the talking has ended with it.
    while await asyncio.to_thread(connection.recv, 4096):
        pass


async def test_who_waited_for_its_turn_does_not_wait_once_more(
    mute: Mute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience(monkeypatch, 4)
    url = f"git+http://127.0.0.1:{mute.port}/queue.git"
    first = asyncio.create_task(GitQueue.open(url, SystemClock(), tmp_path))
    assert await asyncio.to_thread(mute.called.wait, 30)
    second = asyncio.create_task(GitQueue.open(url, SystemClock(), tmp_path))
    for opening in (first, second):
        with pytest.raises(QueueUnavailableError, match="has not answered"):
            await opening
    assert len(mute.connections) == 1
    # The next one asks again.
    with pytest.raises(QueueUnavailableError, match="has not answered"):
        await GitQueue.open(url, SystemClock(), tmp_path)
    assert len(mute.connections) == 2


def test_a_remote_that_has_begun_may_take_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = r"printf 'Receiving objects:  10%% (1/10)\r' >&2; sleep 2; printf 'done.\nfatal: no\n' >&2; exit 3"
    git = the_git(tmp_path, script, monkeypatch)
    git.first_timeout = timedelta(seconds=1)
    assert git.attempt("fetch") == (3, "done.\nfatal: no")


def test_one_that_falls_silent_half_way_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_command, "SILENCE_AT_WORK", timedelta(seconds=1))
    git = the_git(tmp_path, r"printf 'remote: Counting objects: 3\r' >&2; sleep 600", monkeypatch)
    with pytest.raises(QueueUnavailableError, match="has not answered"):
        git.attempt("push")


def test_work_on_the_mirror_is_given_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = the_git(tmp_path, "sleep 2", monkeypatch)
    git.first_timeout = timedelta(seconds=1)
    assert git.attempt("gc") == (0, "")


def test_what_was_noted_before_the_machine_started_anew_does_not_count(tmp_path: Path) -> None:
    kept = Mirror(RepositoryLocation("git+https://host/queue.git"), tmp_path)
    kept.set_contact(mirror.now())
    assert kept.contact > 0
    kept.set_contact(mirror.now() + 86_400)
    (kept.folder / "longshore-silence").write_text(repr(mirror.now() + 86_400))
    with kept.push_lock:
        assert kept.contact == float("-inf")
        assert not kept.push_lock.gave_up_meanwhile
    kept.close()
