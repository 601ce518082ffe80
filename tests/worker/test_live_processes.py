"""Real workers whose settings change: by an edit of `.env`, on SIGHUP, and when their terminal is closed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshore.job import State, new_job
from longshore.settings import TABLE

HANDLER = """
    import asyncio, os, pathlib

    @handler("waits")
    async def waits(job):
        pathlib.Path(f"begun-{job.payload['number']}").write_text(os.environ["LONGSHORE_DATABASE"])
        while not pathlib.Path("go").exists():
            await asyncio.sleep(0.01)
    """

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(site: Any) -> Start:
    """Start `longshore work` in the site's folder, with ten jobs to do."""
    site.handlers(HANDLER)
    site.submit(*(new_job("waits", {"number": number}) for number in range(10)))
    ours = {name for setting in TABLE.values() for name in setting.variables}
    environment = {name: value for name, value in os.environ.items() if name not in ours}

    def begin(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        log_file = site.folder / f"worker{len(site.workers)}.log"
        with log_file.open("wb") as stream:
            worker = subprocess.Popen(
                [sys.executable, "-m", "longshore", "work", str(site.file), "--until-done", *arguments],
                cwd=site.folder,
                stderr=stream,
                env={
                    **environment,
                    "LONGSHORE_TEST": str(site.folder),
                    "LONGSHORE_QUEUE": site.url,
                    "LONGSHORE_LOG_FORMAT": "json",
                },
                start_new_session=True,
                **options,
            )
        site.workers.append(worker)
        site.logs.append(log_file)
        return worker

    return begin


def begun(site: Any) -> int:
    return len(list(site.folder.glob("begun-*")))


def said(site: Any, text: str) -> Callable[[], bool]:
    return lambda: any(text in entry["message"] for entry in site.said())


def test_an_edit_of_the_dotenv_file_reaches_a_worker_and_no_job_is_lost(site: Any, start: Start) -> None:
    (site.folder / ".env").write_text("LONGSHORE_CONCURRENCY=1\n")
    worker = start("--profile", "production")
    site.wait_for(lambda: begun(site) == 1)
    (site.folder / ".env").write_text("LONGSHORE_CONCURRENCY=4\n")
    site.wait_for(lambda: begun(site) == 4)
    site.wait_for(said(site, "Settings changed: concurrency 1 → 4 (.env)"))
    (site.folder / "go").write_text("now")
    assert site.ended(worker) == 0
    assert [(job.state, job.attempts) for job in site.jobs()] == [(State.COMPLETED, 1)] * 10


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
def test_sighup_has_the_settings_read_again(site: Any, start: Start) -> None:
    worker = start("--concurrency", "1", "--max-work", "1", "--profile", "testing")
    site.wait_for(lambda: begun(site) == 1)
    worker.send_signal(signal.SIGHUP)
    site.wait_for(said(site, "Settings read again: nothing has changed"))
    (site.folder / ".env").write_text("MAX_DELAY_SECONDS=soon\n")
    worker.send_signal(signal.SIGHUP)
    site.wait_for(said(site, "Settings not changed, the old ones stay: max_delay_seconds"))
    (site.folder / ".env").write_text("MAX_DELAY_SECONDS=5\nLONGSHORE_CONCURRENCY=9\n")
    worker.send_signal(signal.SIGHUP)
    site.wait_for(said(site, "Settings changed: max_delay_seconds 0 → 5 (.env)"))
    (site.folder / "go").write_text("now")
    assert site.ended(worker) == 0
    assert begun(site) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
def test_a_worker_whose_terminal_is_closed_finishes_its_attempts_and_stops(site: Any, start: Start) -> None:
    mine, its = pty.openpty()
    name = os.ttyname(its)

    def take_terminal() -> None:
        os.close(os.open(name, os.O_RDWR))  # the first terminal that a new session opens is its own

    worker = start("--concurrency", "1", "--log-format", "json", stdin=its, preexec_fn=take_terminal)
    os.close(its)
    site.wait_for(lambda: begun(site) == 1)
    os.close(mine)
    site.wait_for(said(site, "STOPPING: the terminal was closed; finishing 1 job under way"))
    (site.folder / "go").write_text("now")
    assert site.ended(worker) == 0
    assert sorted(job.state for job in site.jobs()) == [State.COMPLETED] + [State.PENDING] * 9


def test_handlers_get_the_database_settings_of_the_profile(site: Any, start: Start) -> None:
    (site.folder / "go").write_text("now")
    worker = start("--profile", "development", "--concurrency", "1")
    assert site.ended(worker) == 0
    told = [Path(path).read_text() for path in site.folder.glob("begun-*")]
    assert told == ["false"] * 5
    assert said(site, "STOPPING: reached the limit of 5 jobs")()


def test_a_proxy_file_that_could_not_be_read_is_read_when_it_can_be_and_again_when_it_changes(
    site: Any, start: Start
) -> None:
    proxies = site.folder / "proxies.txt"
    (site.folder / ".env").write_text("")
    start()
    site.wait_for(lambda: begun(site) > 0)
    (site.folder / ".env").write_text("PROXY_FILE=proxies.txt\n")
    site.wait_for(lambda: "The proxies stay as they were, until their file can be read" in site.logs[0].read_text())
    proxies.write_text("no proxy at all\n")
    site.wait_for(lambda: "line 1 is no proxy" in site.logs[0].read_text())
    proxies.write_text("127.0.0.1:9\n")
    site.wait_for(lambda: site.logs[0].read_text().count("Proxies read: proxies.txt") == 1)
    proxies.write_text("127.0.0.1:9\n127.0.0.1:10\n")
    site.wait_for(lambda: site.logs[0].read_text().count("Proxies read: proxies.txt") == 2)
    (site.folder / ".env").unlink()
    site.wait_for(lambda: "stay as they were: proxy_file is no longer set" in site.logs[0].read_text())
    assert site.logs[0].read_text().count("stay as they were") == 3
    (site.folder / "go").touch()
    assert site.workers[0].wait() == 0
