"""The git medium passes the suite: over a repository on this machine, and over HTTP with a password."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.services.git_http import GitHttpServer

from longshore.clock import ManualClock
from longshore.conformance import ConformanceTests, Harness, NewHarness, ProcessTests
from longshore.conformance.suite.claiming import ClaimingTests
from longshore.conformance.suite.submitting import SubmittingTests
from longshore.conformance.suite.waiting import WaitingTests
from longshore.job import new_job
from longshore.media.git import open_queue
from longshore.media.git.location import RepositoryLocation, cache_folder
from longshore.media.git.queue import GitQueue
from longshore.queue import Queue


class GitHarness(Harness):
    examples = 6

    def __init__(self, folder: Path, begun: Path | None = None) -> None:
        if begun is None:
            subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
        else:
            shutil.copytree(begun, folder)
        self._clock = ManualClock()
        self._folder = folder
        self._url = f"git+file://{folder}"

    async def open(self) -> Queue:
        return await open_queue(self._url, self._clock)

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    async def set_clock(self, seconds: float) -> bool:
        self._clock.step_wall(seconds)
        return True

    def url_for_processes(self) -> str:
        return self._url

    async def back_up(self) -> Callable[[], Awaitable[None]]:
        saved = self._folder.with_suffix(".saved")
        shutil.copytree(self._folder, saved)

        async def restore() -> None:
            shutil.rmtree(self._folder)
            saved.rename(self._folder)
            # Go on as a machine does that has not seen the newer commits: the others refuse the old branch.
            shutil.rmtree(RepositoryLocation(self._url).mirror(cache_folder()))

        return restore


class HttpHarness(GitHarness):
    examples = 2

    def __init__(self, server: GitHttpServer, name: str) -> None:
        server.make(name)
        self._folder = server.folder / name
        self._clock = ManualClock()
        self._url = server.url(name)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with a new queue at its first commit."""
    folder = tmp_path_factory.mktemp("begun")
    url = f"git+file://{folder / 'queue.git'}"

    async def make() -> None:
        queue = await GitQueue.open(url, ManualClock(), folder / "cache")
        await queue.submit([new_job("page", {})])
        await queue.close()

    git = ("git", "--git-dir", str(folder / "queue.git"))
    subprocess.run([*git, "init", "--quiet", "--bare", "--template="], check=True)
    asyncio.run(make())
    first = subprocess.run([*git, "rev-list", "--max-parents=0", "longshore-1"], check=True, capture_output=True)
    subprocess.run([*git, "update-ref", "refs/heads/longshore-1", first.stdout.decode().strip()], check=True)
    return folder / "queue.git"


@pytest.mark.ledger("F1")
class TestGit(ConformanceTests, ProcessTests):
    """The suite on a copy of a new queue, because creating queues would take half of the time. Tests with processes,
    tests over HTTP, and all tests with `--long` create their own."""

    @pytest.fixture
    def new_harness(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        begun: Path,
        request: pytest.FixtureRequest,
        long: bool,
    ) -> NewHarness:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        numbers = count()
        ready = None if long or "url" in request.fixturenames else begun
        return lambda: GitHarness(tmp_path / f"{next(numbers)}.git", ready)


class OverHttp:
    @pytest.fixture
    def new_harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewHarness]:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        numbers = count()
        with GitHttpServer(tmp_path) as server:
            yield lambda: HttpHarness(server, f"{next(numbers)}.git")


class TestGitOverHttp(OverHttp, SubmittingTests, ClaimingTests, WaitingTests):
    """The tests that the network could affect: accepted and refused pushes, and fetches. Each starts a dozen processes
    over HTTP, so the other tests, which use the same two, run only with `--long`."""


class TestGitOverHttpWholly(OverHttp, ConformanceTests, ProcessTests):
    @pytest.fixture(autouse=True)
    def only_when_asked(self, long: bool) -> None:
        if not long:
            pytest.skip("takes a quarter of an hour; run with --long")
