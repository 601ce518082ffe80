"""D9: the functions do what the commands of the same name do, on the same queue."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import longshore
from longshore import AsyncKit, handler
from longshore.errors import NotFoundError, UsageError

URLS = ["https://a.org/1", "https://a.org/2", "https://a.org/bad"]


@handler("page", retries=0)
async def page(url: str, kit: AsyncKit) -> str:
    """A handler for the tests."""
    if url.endswith("/bad"):
        raise ValueError("bad page")
    kit.emit({"url": url}, kind="item")
    return url


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path


@pytest.fixture
def monday() -> str:
    """A run of two completed jobs and one that failed."""

    @handler("page", retries=0)
    async def own(url: str, kit: AsyncKit) -> str:
        return await page.function(url, kit)

    return longshore.run(own, URLS, run="monday", progress=False).run_id


def command(*arguments: str) -> object:
    done = subprocess.run(
        [sys.executable, "-m", "longshore", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


def test_submitted_jobs_are_counted_and_wait_for_workers() -> None:
    first = longshore.submit("page", URLS, run="monday", priority=3, partition="CA")
    again = longshore.submit("page", URLS, run=first)
    assert (first.run_id, first.submitted, first.duplicates) == ("monday", 3, 0)
    assert (again.submitted, again.duplicates) == (0, 3)
    assert [(job.priority, job.partition) for job in longshore.jobs(first)] == [(3, "CA")] * 3
    [lane] = longshore.status("monday")
    assert (lane.kind, lane.partition, lane.pending) == ("page", "CA", 3)
    shown = command("status", "monday", "--json")
    assert isinstance(shown, dict)
    assert shown["pending"] == 3


def test_rows_that_share_a_url_are_told_apart_by_their_identity() -> None:
    rows = [{"url": "https://a.org/", "page": 1}, {"url": "https://a.org/", "page": 2}]
    assert longshore.submit("page", rows, identity=["url", "page"]).submitted == 2


@pytest.mark.ledger("D9")
def test_a_job_is_shown_with_its_history_and_retried(monday: str) -> None:
    [failed] = longshore.jobs(monday, state="failed", error="*bad page*")
    job, history = longshore.show(failed.id)
    assert job == failed
    assert job.failure is not None
    assert job.failure.message == "bad page"
    assert len(history) <= 1
    assert longshore.retry_jobs(run=monday) == 1
    assert longshore.stats(monday).pending == 1
    assert longshore.cancel(failed.id) == 1
    assert longshore.retry_jobs(failed.id) == 1
    assert longshore.retry_jobs(run=monday) == 0


def test_runs_are_paused_and_resumed(monday: str) -> None:
    assert [longshore.pause(monday), longshore.pause(monday)] == [True, False]
    assert list(_dict(command("pause", "--json"))) == [monday]
    assert [longshore.resume(monday), longshore.resume(monday)] == [True, False]
    assert longshore.pause(None)
    assert longshore.resume(None)


def test_an_export_is_the_file_that_the_command_writes(monday: str) -> None:
    written = longshore.export(monday, Path("results.csv"), sorted=True)
    subprocess.run([sys.executable, "-m", "longshore", "export", monday, "--sorted", "-o", "same.csv"], check=True)
    assert written.rows == 2
    assert Path("results.csv").read_bytes() == Path("same.csv").read_bytes()
    assert longshore.export(monday, "items.jsonl", records="item", bare=True).rows == 2
    assert json.loads(Path("items.jsonl").read_text().splitlines()[0]).keys() == {"url"}
    assert longshore.export(monday, "all.jsonl", records=True).rows == 2


def test_waiting_returns_how_the_run_ended(monday: str) -> None:
    end = longshore.wait(monday, progress=False)
    assert (end.run_id, end.ended, end.count.failed) == ("monday", "failed", 1)
    with pytest.raises(NotFoundError, match=r"No run in .* is unfinished"):
        longshore.wait(progress=False)
    longshore.submit("page", URLS, run="tuesday")
    longshore.submit("page", URLS, run="a-newer-one")
    longshore.submit("page", [*URLS, "https://a.org/4"], run="tuesday")
    left = longshore.wait(timeout=0, progress=False)
    assert (left.run_id, left.ended) == ("a-newer-one", "timeout")
    assert {count.run: count.remaining for count in longshore.status()} == {"monday": 0, "tuesday": 4, "a-newer-one": 3}


async def test_all_of_them_may_be_called_while_a_loop_runs(monday: str) -> None:
    assert asyncio.get_running_loop().is_running()
    assert longshore.wait(monday, progress=False).count.completed == 2
    assert longshore.cancel(run=monday) == 0


def test_completed_jobs_are_archived(tmp_path: Path) -> None:
    queue = f"git+file://{tmp_path / 'queue.git'}"
    subprocess.run(["git", "init", "-q", "--bare", "queue.git"], check=True)

    @handler("page")
    async def own(url: str) -> None: ...

    longshore.run(own, URLS, run="monday", queue=queue, progress=False)
    packed, months = longshore.archive(older_than=timedelta(0), queue=queue)
    assert (packed, sum(month.jobs for month in months)) == (3, 3)
    assert longshore.stats("monday", queue=queue).completed == 3


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (longshore.retry_jobs, "Say which jobs to retry: ids, or any of run, kind"),
        (lambda: longshore.cancel("999"), "There is no job 999"),
        (lambda: longshore.cancel(run="none"), "There is no run 'none'"),
        (lambda: longshore.retry_jobs(run="monday", state="pending"), "cannot be changed by retry"),
        (lambda: list(longshore.jobs(state="lost")), "There is no state 'lost'"),
        (lambda: longshore.show("999"), "There is no job '999'"),
        (lambda: longshore.pause("none"), "There is no run 'none'"),
        (lambda: longshore.wait("none"), "There is no run 'none'"),
        (lambda: longshore.submit(" ", URLS), "The kind is empty"),
        (lambda: longshore.submit("page", []), "There are no jobs"),
        (lambda: longshore.export("monday", "a.csv", bare=True), "bare belongs to records"),
        (longshore.archive, "has no archive"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_cause(monday: str, call: Callable[[], object], fault: str) -> None:
    with pytest.raises((UsageError, NotFoundError), match=fault):
        call()


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def test_a_page_is_fetched_as_handlers_fetch_it() -> None:
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['User-Agent']}")
            pages = {"/robots.txt": (200, "User-agent: *\nDisallow: /private"), "/page": (200, "<h1>Here</h1>")}
            status, text = pages.get(self.path, (410, "gone"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    Path(".env").write_text("LONGSHORE_CONTACT=me@example.org\nLONGSHORE_HOST_FIRST_RATE=50\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            site = f"http://127.0.0.1:{server.server_port}"
            assert longshore.fetch(f"{site}/page").text_of("h1") == "Here"
            with pytest.raises(longshore.StatusError) as gone:
                longshore.fetch(f"{site}/nosuch", timeout=20)
            assert gone.value.status == 410
            with pytest.raises(longshore.ProcessingError, match=r"robots\.txt"):
                longshore.fetch(f"{site}/private/1")
        finally:
            server.shutdown()
            thread.join()
    pages = [each for each in asked if "robots" not in each]
    assert [each.split()[0] for each in pages] == ["/page", "/nosuch"]
    assert all("me@example.org" in each for each in asked)
