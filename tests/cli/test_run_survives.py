"""`longshore run` on a local site, while its processes are killed with -9."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.waiting import wait_until

from longshore.media import open_queue
from longshore.queue import Count, totals

EXAMPLE = Path(__file__).parents[2] / "examples" / "site.py"
MARK = "LONGSHORE_TEST_MARK"


class Run:
    """`longshore run` in a folder of its own, and what can be done to it."""

    def __init__(self, folder: Path, urls: Path, mark: str) -> None:
        self.folder, self.urls, self.mark = folder, urls, mark
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "run.log"

    def start(self) -> None:
        command = [sys.executable, "-m", "longshore", "run", str(EXAMPLE), "--urls-file", str(self.urls)]
        environment = os.environ | {MARK: self.mark, "LONGSHORE_LEASE_SECONDS": "2", "LONGSHORE_BATCH_SIZE": "20"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--workers", "3", "--out", "results.jsonl"],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def finish(self) -> int:
        assert self.process is not None
        return self.process.wait(timeout=300)

    def kill(self) -> None:
        """All of it at once, as a power cut would."""
        assert self.process is not None
        for process in [psutil.Process(self.process.pid), *self.descendants()]:
            _kill(process)
        self.process.wait()

    def kill_a_worker(self) -> None:
        _kill(random.choice([p for p in self.descendants() if "work" in p.cmdline()]))

    def descendants(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def left_behind(self) -> list[psutil.Process]:
        """Every process that carries this run's mark, whoever its parent is now."""
        return [p for p in psutil.process_iter() if _environment(p).get(MARK) == self.mark]

    def count(self) -> Count:
        async def read() -> Count:
            queue = await open_queue(f"sqlite:///{self.folder}/.longshore/queue.db")
            try:
                return totals(await queue.stats())
            finally:
                await queue.close()

        if not (self.folder / ".longshore" / "queue.db").exists():
            return Count()
        return asyncio.run(read())

    def results(self) -> list[str]:
        lines = (self.folder / "results.jsonl").read_text().splitlines()
        return [json.loads(line)["payload"]["url"] for line in lines]


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return {}


@pytest.fixture
def pages(long: bool) -> int:
    return 10_000 if long else 1_200


@pytest.fixture
def urls(tmp_path: Path, pages: int) -> Iterator[Path]:
    file = tmp_path / "urls.txt"
    command = [sys.executable, "-m", "longshore.demo.site", "--pages", str(pages), "--port", "0", "--delay", "0.02"]
    with subprocess.Popen([*command, "--urls-file", str(file)], stdout=subprocess.PIPE) as site:
        assert site.stdout is not None
        assert b"Serving" in site.stdout.readline()
        yield file
        site.terminate()


def test_killed_workers_and_a_killed_run_lose_nothing_and_repeat_nothing(
    tmp_path: Path, urls: Path, pages: int, long: bool
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    run = Run(folder, urls, mark=str(tmp_path))
    run.start()
    kills = 8 if long else 2
    for number in range(1, kills + 1):
        wait_until(lambda number=number: run.count().completed >= pages * number // (2 * (kills + 1)))  # type: ignore[misc]
        run.kill_a_worker()
    wait_until(lambda: run.count().completed >= pages * 6 // 10)

    run.kill()
    before = run.count()
    assert before.total == pages
    assert 0 < before.completed < pages
    wait_until(lambda: not run.left_behind())

    run.start()
    assert run.finish() == 0, run.log.read_text()
    after = run.count()
    assert (after.completed, after.remaining, after.failed) == (pages, 0, 0)
    assert sorted(run.results()) == sorted(urls.read_text().split())
    wait_until(lambda: not run.left_behind())
