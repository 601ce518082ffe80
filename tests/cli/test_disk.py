"""`longshore disk`, and `prune`, which removes what is kept of jobs with them (item 9)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from longshore.job import Job
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.page_store import PageStore

from .conftest import Shell

PAGES = """
from longshore import handler

@handler("page", retries=0)
async def page(job, kit):
    if job.payload["url"].endswith("/2"):
        raise ValueError("no title")
    return 1
"""


def job(number: int, queue: str = "q", run: str = "r") -> Job:
    return Job(id=str(number), run=run, kind="page", key=f"k{number}", payload={}, queue=queue)


def keep(store: PageStore, of: Job, body: bytes) -> None:
    keeper = store.attempt(of)
    keeper.add(Exchange(method="GET", url="https://a.org/", status=200, body=body))
    keeper.close()


def name(of: Job) -> tuple[str, str, str, str, str]:
    return of.run, of.kind, of.key, of.queue, of.id


def test_pages_go_with_their_jobs_and_shared_content_stays(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    keep(store, job(1), b"shared")
    keep(store, job(1), b"own" * 1000)
    keep(store, job(2), b"shared")
    keep(store, job(1, queue="another"), b"elsewhere")
    contents = sorted(tmp_path.glob("content/*/*.zst"))
    dry = store.remove([name(job(1))], dry=True, spare=0)
    assert dry.lists == 1
    assert sorted(tmp_path.glob("content/*/*.zst")) == contents
    assert store.remove([name(job(1))], spare=0).lists == 1
    assert store.latest(job(1)) == []
    # The same job in another queue, and another job with the same page, keep theirs.
    assert [exchange.body for exchange in store.exchanges(job(1, queue="another"))] == [b"elsewhere"]
    assert [exchange.body for exchange in store.exchanges(job(2))] == [b"shared"]
    assert len(list(tmp_path.glob("content/*/*.zst"))) == 2


def test_content_that_a_worker_may_be_about_to_list_stays(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    keep(store, job(1), b"a page")
    [content] = tmp_path.glob("content/*/*.zst")
    os.utime(content, (0, 0))
    # Another worker fetches the same page now, and has not listed it yet.
    store.put_content(b"a page")
    store.remove([name(job(1))])
    assert content.exists()
    assert content.stat().st_mtime > time.time() - 600


def test_disk_says_what_is_kept_and_prune_removes_it_with_the_jobs(shell: Shell) -> None:
    shell.write("pages.py", PAGES)
    shell.write("urls.txt", "https://a.org/1\nhttps://a.org/2\n")
    assert shell("run", "pages.py", "--urls-file", "urls.txt", "--run", "r", "--workers", "1").returncode == 1
    kept = {row["what"]: row for row in shell.json("disk", "--json")["kept"]}
    assert kept["queue"]["bytes"] > 0
    assert (kept["failure bundles"]["files"], kept["logs of runs"]["files"]) >= (1, 1)
    shown = shell("disk").stdout
    assert "failure bundles" in shown
    assert "free" in shown
    dry = shell("prune", "--run", "r", "--dry-run").stdout
    assert "Would remove 2 jobs" in dry
    assert "1 failure bundle and the logs of 1 run" in dry
    assert shell.json("status", "r", "--json")["completed"] == 1
    done = shell("prune", "--run", "r", "--yes")
    assert done.returncode == 0, done.stderr
    kept = {row["what"]: row for row in shell.json("disk", "--json")["kept"]}
    assert (kept["failure bundles"]["files"], kept["logs of runs"]["files"]) == (0, 0)


@pytest.mark.parametrize("of", ["r", "other"])
def test_what_other_runs_keep_stays(shell: Shell, of: str) -> None:
    shell.write("pages.py", PAGES)
    shell.write("urls.txt", "https://a.org/2\n")
    for run in ("r", "other"):
        shell("run", "pages.py", "--urls-file", "urls.txt", "--run", run, "--workers", "1")
    assert shell("prune", "--run", of, "--yes").returncode == 0
    [bundle] = (shell.folder / ".longshore" / "bundles").iterdir()
    assert json.loads((bundle / "bundle.json").read_text())["job"]["run"] != of
