"""The git medium passes the suite: over a repository on this machine, and over HTTP with a password."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.services.git_http import GitHttpServer

from longshore.clock import ManualClock
from longshore.conformance import ConformanceTests, Harness, NewHarness, ProcessTests
from longshore.conformance.suite.claiming import ClaimingTests
from longshore.conformance.suite.submitting import SubmittingTests
from longshore.conformance.suite.waiting import WaitingTests
from longshore.media.git import open_queue
from longshore.queue import Queue


class GitHarness(Harness):
    examples = 6

    def __init__(self, folder: Path) -> None:
        subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
        self._clock = ManualClock()
        self._url = f"git+file://{folder}"

    async def open(self) -> Queue:
        return await open_queue(self._url, self._clock)

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def url_for_processes(self) -> str:
        return self._url


class HttpHarness(GitHarness):
    examples = 2

    def __init__(self, server: GitHttpServer, name: str) -> None:
        server.make(name)
        self._clock = ManualClock()
        self._url = server.url(name)


class TestGit(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewHarness:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        numbers = count()
        return lambda: GitHarness(tmp_path / f"{next(numbers)}.git")


class OverHttp:
    @pytest.fixture
    def new_harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewHarness]:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        numbers = count()
        with GitHttpServer(tmp_path) as server:
            yield lambda: HttpHarness(server, f"{next(numbers)}.git")


class TestGitOverHttp(OverHttp, SubmittingTests, ClaimingTests, WaitingTests):
    """What the network could change: pushes that win and lose, and fetches. Each starts a dozen processes over HTTP,
    so the rest, which is made of the same two, is left to `--long`."""


class TestGitOverHttpWholly(OverHttp, ConformanceTests, ProcessTests):
    @pytest.fixture(autouse=True)
    def only_when_asked(self, long: bool) -> None:
        if not long:
            pytest.skip("takes a quarter of an hour; run with --long")
