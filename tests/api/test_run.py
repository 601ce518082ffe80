"""A run from Python: the same as the command, from scripts, from notebooks, and with handlers that have no file."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import longshore
from longshore import AsyncKit, Job, Result, handler, new_job
from longshore.errors import HandlerFileError, InputFileError, NotFoundError, UsageError

PAGES = """
import os

from longshore import handler


@handler("page")
def page(url: str, kit):
    kit.emit({"url": url, "process": os.getpid()}, kind="item")
    if url.endswith("/bad"):
        raise ValueError("bad page")
    return {"length": len(url)}
"""
URLS = ["https://a.org/1", "https://a.org/22"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *(arguments or ("-c", code))]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_handler_file_is_run_as_by_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    Path("pages.py").write_text(PAGES)
    done = longshore.run("pages.py", [*URLS, "https://a.org/bad"], workers=2, out="out.jsonl", items="items.csv")
    assert (done.status, done.completed, done.failed, done.remaining) == ("failed", 2, 1, 0)
    assert done.results == "out.jsonl"
    assert len(Path("out.jsonl").read_text().splitlines()) == 2
    assert len(Path("items.csv").read_text().splitlines()) == 3
    assert [job.result for job in longshore.results(done)] == [{"length": 15}, {"length": 16}]
    assert [job.payload["url"] for job in longshore.jobs(done, state="failed")] == ["https://a.org/bad"]
    found = list(longshore.items(done.run_id, "item"))
    assert sorted(item["url"] for item in found) == URLS
    assert os.getpid() not in {item["process"] for item in found}
    assert longshore.stats(done).completed == 2
    assert "2 completed" in capfd.readouterr().err


def test_without_a_file_for_the_results_they_are_in_the_queue_alone(capfd: pytest.CaptureFixture[str]) -> None:
    Path("pages.py").write_text(PAGES)
    done = longshore.run("pages.py", "https://a.org/1", workers=1, progress=False)
    assert (done.status, done.results) == ("completed", None)
    assert [path.name for path in Path().iterdir() if path.suffix == ".jsonl"] == []
    assert capfd.readouterr() == ("", "")


def test_a_handler_of_an_imported_module_is_run_by_processes() -> None:
    Path("pages.py").write_text(PAGES)
    code = """
import os, longshore
from pages import page
done = longshore.run(page, ["https://a.org/1"], workers=1)
[item] = longshore.items(done)
assert item["process"] != os.getpid()
"""
    assert python(code).returncode == 0


def test_a_script_runs_its_own_handler_by_processes() -> None:
    Path("script.py").write_text(
        PAGES
        + """
import longshore

if __name__ == "__main__":
    done = longshore.run(page, ["https://a.org/1"], workers=2)
    [item] = longshore.items(done)
    assert item["process"] != os.getpid()
"""
    )
    done = python("", "script.py")
    assert done.returncode == 0, done.stderr


def test_a_script_whose_workers_would_call_run_again_is_told_so_before_any_starts() -> None:
    Path("script.py").write_text(PAGES + "\nimport longshore\nlongshore.run(page, ['https://a.org/1'])\n")
    done = python("", "script.py")
    assert done.returncode == 1
    assert 'Put the call below if __name__ == "__main__":' in done.stderr
    assert not Path(".longshore").exists()


def test_all_handlers_of_a_notebook_count_and_run_inside_it() -> None:
    code = """
import asyncio, os
import longshore
from longshore import Result, handler, new_job

@handler("list")
async def listing(url: str, kit):
    return Result(1, jobs=[new_job("item", {"url": url + "/item"})])

@handler("item")
async def item(url: str, kit):
    print("seen by the log")
    kit.emit({"url": url, "process": os.getpid()})

done = longshore.run(listing, ["https://a.org/1", "https://a.org/2"], workers=8)
assert (done.status, done.completed) == ("completed", 4), done
assert [item["process"] for item in longshore.items(done)] == [os.getpid()] * 2
log = open(f".longshore/logs/{done.run_id}/worker.log").read()
assert "seen by the log" in log, log
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "1 worker," in done.stderr


async def test_a_run_may_be_awaited_and_may_be_called_while_a_loop_runs() -> None:
    @handler("page")
    async def page(url: str, kit: AsyncKit) -> int:
        kit.emit({"url": url})
        return len(url)

    awaited = await longshore.run_async(page, URLS, progress=False)
    called = longshore.run(page, URLS, progress=False)
    assert awaited.run_id != called.run_id
    assert [job.result for job in longshore.results(awaited)] == [15, 16]
    assert sorted(item["url"] for item in longshore.items(called)) == URLS


async def test_a_cancelled_run_is_continued_by_the_same_call() -> None:
    began, go_on = threading.Event(), threading.Event()

    @handler("page")
    async def page(url: str) -> str:
        began.set()
        if not go_on.is_set():
            await asyncio.Event().wait()
        return url

    first = asyncio.create_task(longshore.run_async(page, URLS, progress=False))
    await asyncio.to_thread(began.wait)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go_on.set()
    count = longshore.stats(next(longshore.jobs()).run)
    assert (count.completed, count.remaining) == (0, 2)
    done = await longshore.run_async(page, list(URLS), progress=False)
    assert (done.run_id, done.completed) == (count.run, 2)


def test_an_own_run_leaves_the_logging_of_the_program_as_it_was() -> None:
    @handler("page")
    async def page(url: str) -> None: ...

    root = logging.getLogger()
    before = structlog.get_config(), list(root.handlers), root.level, sys.stdout
    longshore.run(page, URLS, progress=False)
    assert (structlog.get_config(), list(root.handlers), root.level, sys.stdout) == before


def test_payloads_and_jobs_may_be_given_and_a_handler_may_fail() -> None:
    @handler("page", retries=0)
    async def page(job: Job) -> Result | None:
        if job.payload["n"] == 2:
            raise ValueError("two")
        return Result(job.payload["n"])

    given = ({"n": 1}, {"n": 2}, new_job("page", {"n": 3}))
    done = longshore.run(page, (each for each in given), progress=False)
    assert (done.status, done.completed, done.failed) == ("failed", 2, 1)


def test_what_cannot_be_run_is_refused_in_one_sentence() -> None:
    @handler("page")
    def plain(url: str) -> None: ...

    @handler("page")
    async def page(url: str) -> None: ...

    with pytest.raises(HandlerFileError, match=r"Write `async def`, or put it into a file"):
        longshore.run(plain, URLS, progress=False)
    assert not Path(".longshore").exists()
    with pytest.raises(UsageError, match="A dict is no handler"):
        longshore.run({}, URLS)  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(HandlerFileError, match=r"There is no handler file none\.py"):
        longshore.run("none.py", URLS)
    with pytest.raises(InputFileError, match="Nothing was submitted"):
        longshore.run(page, ["nonsense"])
    with pytest.raises(NotFoundError, match="There is no run 'none'"):
        list(longshore.items("none"))
