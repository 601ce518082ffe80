"""A remote that accepts and sends nothing times out in seconds, once for all workers of a machine (A18)."""

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
    """A server that accepts connections and never sends a byte."""

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
        # A thread that waits on a closed socket keeps waiting, and after a signal it waits on the socket that has the
        # same number by then: the server of another test.
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
    """Return a `GitCommand` that runs a script instead of git."""
    (folder / "git").write_text(f'#!/bin/sh\ncase "$*" in *config*) exit 1;; esac\n{script}\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return GitCommand(folder, RepositoryLocation("git+ssh://git@host/queue.git"))


@pytest.mark.parametrize("scheme", ["git+http", "git+ssh"])
async def test_a_silent_remote_times_out_and_no_process_remains(
    mute: Mute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    patience(monkeypatch, 1)
    with pytest.raises(QueueUnavailableError, match=r"has not answered for \d+ s. Check the network") as caught:
        await GitQueue.open(f"{scheme}://git@127.0.0.1:{mute.port}/queue.git", SystemClock(), tmp_path)
    assert "again" not in str(caught.value)
    (connection,) = mute.connections
    connection.settimeout(30)
    # The helper process that git had started has ended as well.
    while await asyncio.to_thread(connection.recv, 4096):
        pass


async def test_a_process_that_waited_for_the_lock_does_not_wait_for_the_remote_again(
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
    # The next call contacts the remote again.
    with pytest.raises(QueueUnavailableError, match="has not answered"):
        await GitQueue.open(url, SystemClock(), tmp_path)
    assert len(mute.connections) == 2


def test_a_remote_that_has_begun_to_answer_has_the_longer_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = r"printf 'Receiving objects:  10%% (1/10)\r' >&2; sleep 2; printf 'done.\nfatal: no\n' >&2; exit 3"
    git = the_git(tmp_path, script, monkeypatch)
    git.first_timeout = timedelta(seconds=1)
    assert git.attempt("fetch") == (3, "done.\nfatal: no")


def test_a_remote_that_stops_half_way_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_command, "SILENCE_AT_WORK", timedelta(seconds=1))
    git = the_git(tmp_path, r"printf 'remote: Counting objects: 3\r' >&2; sleep 600", monkeypatch)
    with pytest.raises(QueueUnavailableError, match="has not answered"):
        git.attempt("push")


def test_commands_on_the_mirror_have_the_longest_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = the_git(tmp_path, "sleep 2", monkeypatch)
    git.first_timeout = timedelta(seconds=1)
    assert git.attempt("gc") == (0, "")


def test_an_instant_from_before_a_reboot_is_ignored(tmp_path: Path) -> None:
    kept = Mirror(RepositoryLocation("git+https://host/queue.git"), tmp_path)
    kept.set_contact(mirror.now())
    assert kept.contact > 0
    kept.set_contact(mirror.now() + 86_400)
    (kept.folder / "longshore-silence").write_text(repr(mirror.now() + 86_400))
    with kept.push_lock:
        assert kept.contact == float("-inf")
        assert not kept.push_lock.gave_up_meanwhile
    kept.close()
