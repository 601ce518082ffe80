"""The tools of handlers in a worker: async ones in its event loop, plain ones in its child processes."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import structlog
from structlog.testing import capture_logs
from tests.scrape.proxy_servers import ProxyServer
from tests.scrape.scripted_site import Answer, ScriptedSite

from longshore.clock import SystemClock
from longshore.errors import InputFileError, SettingsError, UsageError
from longshore.handlers.kit import AsyncKit
from longshore.job import new_job
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.pacing.contract import Unlimited
from longshore.queue import Selection, totals
from longshore.scrape.browser import Browsers
from longshore.scrape.capture.failure_bundles import FailureBundles, read_bundle
from longshore.scrape.proxies.change_log import ProxyChange, ProxyEvent
from longshore.scrape.proxies.status_file import read_status_files
from longshore.scrape.records import RecordReader
from longshore.settings import resolve
from longshore.testing import make_job
from longshore.worker.kit.config import KitConfig, ProxyConfig
from longshore.worker.kit.proxy_setup import check_tools, own_proxies
from longshore.worker.kit.tools import WorkerTools

HANDLERS = """
from longshore import BlockPage, Worker, handler
from longshore.errors import SnoozeError

@handler("async")
async def fetch(job, kit):
    page = await kit.http.get(job.payload["url"])
    kit.emit({"text": page.text}, kind="item")
    return {"length": len(page.body)}

@handler("plain")
def fetch_plainly(job, kit):
    page = kit.http.get(job.payload["url"])
    kit.emit({"text": page.text}, kind="item")
    return {"length": len(page.body)}

def parse(page):
    return page.json()["title"]

@handler("async broken", retries=0)
async def broken(job, kit):
    return parse(await kit.http.get(job.payload["url"]))

@handler("plain broken", retries=0)
def broken_plainly(job, kit):
    return parse(kit.http.get(job.payload["url"]))

@handler("async careful", retries=0, block_pages=[BlockPage(text="robot check")])
async def careful(job, kit):
    return (await kit.http.get(job.payload["url"])).text

@handler("plain careful", retries=0, block_pages=[BlockPage(text="robot check")])
def careful_plainly(job, kit):
    return kit.http.get(job.payload["url"]).text

@handler("fails after emitting", retries=0)
async def fails_late(job, kit):
    kit.emit({"n": 1})
    raise ValueError("late")

class Shop(Worker):
    kinds = ("class",)

    def process_task(self, task):
        task.kit.emit({"text": task.kit.http.get(task.params["url"]).text}, kind="item")
        return {"length": 5}

class AsyncShop(Worker):
    kinds = ("async class",)

    async def process_task(self, task):
        task.kit.emit({"text": (await task.kit.http.get(task.params["url"])).text}, kind="item")
        return {"length": 5}

@handler("filtered", keep=lambda record, kind: "too small" if record["n"] < 3 else True)
async def filtered(job, kit):
    return [kit.emit({"n": n}) for n in range(5)]
"""


@pytest_asyncio.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as site:
        yield site


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kit_handlers.py"
    path.write_text(textwrap.dedent(HANDLERS))
    return path


def records(folder: Path) -> list[Any]:
    return [record.data for record in RecordReader(folder / ".longshore" / "records").records()]


@pytest.mark.parametrize("kind", ["async", "plain", "class", "async class"])
async def test_a_handler_fetches_and_its_records_are_kept(
    run_worker: Any, file: Path, tmp_path: Path, site: ScriptedSite, kind: str
) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job(kind, {"url": f"{site.url}/{n}"}) for n in range(3)])
    await run_worker(queue, handler_file=file)
    assert [job.result for job in await queue.jobs(Selection())] == [{"length": 5}] * 3
    assert records(tmp_path) == [{"text": "hello"}] * 3


@pytest.mark.parametrize("kind", ["async careful", "plain careful"])
async def test_a_block_page_that_the_handler_declares_fails_the_attempt(
    run_worker: Any, file: Path, site: ScriptedSite, kind: str
) -> None:
    queue = MemoryQueue()
    site.script["/x"] = [Answer("<p>Robot Check")]
    await queue.submit([new_job(kind, {"url": f"{site.url}/x"})])
    await run_worker(queue, handler_file=file)
    (job,) = await queue.jobs(Selection())
    assert job.failure is not None
    assert "answered 200 OK with a page with text='robot check'" in job.failure.message


def test_a_wrong_block_page_in_the_settings_is_found_before_anything_begins() -> None:
    with pytest.raises(UsageError, match="block_pages has 'captcha'"):
        check_tools(resolve({"block_pages": "captcha"}))


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_the_user_agent_is_the_one_that_is_set(
    run_worker: Any, file: Path, site: ScriptedSite, kind: str
) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job(kind, {"url": f"{site.url}/1"})])
    await run_worker(queue, handler_file=file, kit=KitConfig(user_agent="harbour/2 (me@example.org)"))
    assert {asked.headers["User-Agent"] for asked in site.requests} == {"harbour/2 (me@example.org)"}


async def test_browsers_are_made_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class NotingBrowsers(Browsers):
        def __init__(self, *args: Any, **options: Any) -> None:
            made.append((*args, options["blocked"], options["user_agent"]))
            super().__init__(*args, **options)

    monkeypatch.setattr("longshore.scrape.browser.Browsers", NotingBrowsers)
    settings = resolve({}, environ={"LONGSHORE_BROWSER": "selenium", "LONGSHORE_BROWSER_BLOCKED": "image, font"})
    tools = WorkerTools(KitConfig.of(settings, WorkerId.new("tester")), "tester/1", Unlimited(), SystemClock())
    assert AsyncKit(structlog.get_logger(), tools, make_job({})).browser is not None
    await tools.close()
    assert made == [("selenium", ("image", "font"), None)]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"LONGSHORE_BROWSER_BLOCKED": "images"}, "'images' cannot be blocked in a browser. Choose from image, media"),
        ({"LONGSHORE_TOR": "true", "PROXY_FILE": "proxies.txt"}, "tor is on and proxy_file is set"),
    ],
)
def test_settings_that_tools_cannot_go_by_are_refused_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proxies.txt").write_text("127.0.0.1:9")
    with pytest.raises(SettingsError, match=message):
        check_tools(resolve({}, environ=variables))


@pytest.mark.parametrize("kind", ["async broken", "plain broken"])
async def test_failures_of_one_kind_leave_one_bundle_with_the_page(
    run_worker: Any, file: Path, tmp_path: Path, site: ScriptedSite, kind: str
) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job(kind, {"url": f"{site.url}/{n}"}) for n in range(20)])
    await run_worker(queue, handler_file=file)
    assert totals(await queue.stats()).failed == 20
    (place,) = (tmp_path / ".longshore" / "bundles").iterdir()
    bundle, exchanges = read_bundle(place)
    assert bundle.signature.function == "parse"
    assert [(exchange.url, exchange.body) for exchange in exchanges] == [(bundle.job.payload["url"], b"hello")]


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_pages_that_cannot_be_kept_cost_no_job(
    run_worker: Any, file: Path, tmp_path: Path, site: ScriptedSite, kind: str
) -> None:
    (tmp_path / ".longshore").mkdir()
    (tmp_path / ".longshore" / "pages").write_text("a file where a folder should be")
    queue = MemoryQueue()
    await queue.submit([new_job(kind, {"url": f"{site.url}/{n}"}) for n in range(3)])
    await run_worker(queue, handler_file=file, kit=KitConfig(keep_pages=True))
    assert [job.result for job in await queue.jobs(Selection())] == [{"length": 5}] * 3


async def test_a_bundle_that_cannot_be_made_costs_neither_the_job_nor_the_worker(
    run_worker: Any, file: Path, site: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("half a character")

    monkeypatch.setattr(FailureBundles, "keep", broken)
    queue = MemoryQueue()
    await queue.submit([new_job("async broken", {"url": f"{site.url}/{n}"}) for n in range(3)])
    with capture_logs() as said:
        await run_worker(queue, handler_file=file)
    assert totals(await queue.stats()).failed == 3
    assert [entry["event"] for entry in said].count("No bundle of this failure could be kept") == 3


async def test_a_failed_attempt_leaves_no_records(run_worker: Any, file: Path, tmp_path: Path) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("fails after emitting", {})])
    await run_worker(queue, handler_file=file)
    assert records(tmp_path) == []


async def test_records_that_the_filter_rejects_are_counted_with_the_reason(
    run_worker: Any, file: Path, tmp_path: Path
) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("filtered", {})])
    await run_worker(queue, handler_file=file)
    assert [job.result for job in await queue.jobs(Selection())] == [[False, False, False, True, True]]
    tally = RecordReader(tmp_path / ".longshore" / "records").tally()
    assert (tally.kept, tally.rejected) == ({"record": 2}, {"record": {"too small": 3}})


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_requests_go_through_the_proxies_of_the_file_and_changes_are_logged(
    run_worker: Any, file: Path, tmp_path: Path, site: ScriptedSite, kind: str
) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job(kind, {"url": f"{site.url}/{n}"}) for n in range(12)])
    servers = [ProxyServer(), ProxyServer()]
    for server in servers:
        await server.start()
    (tmp_path / "proxies.txt").write_text("\n".join([*(server.proxy.url for server in servers), "127.0.0.1:9"]))
    proxies = ProxyConfig(file="proxies.txt", threshold=1)
    await run_worker(queue, handler_file=file, kit=KitConfig(proxies=proxies))
    for server in servers:
        await server.stop()
    assert totals(await queue.stats()).completed == 12
    assert all(server.names for server in servers)
    assert "rests" in (tmp_path / "logs" / "proxies.log").read_text()
    (told,) = read_status_files(tmp_path / ".longshore" / "proxies")
    assert sum(standing.succeeded for standing in told.counters) >= 12
    assert [trouble.state for standing in told.counters for trouble in standing.troubles] == ["resting"]


async def test_proxies_that_change_are_taken_on_while_the_worker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: ScriptedSite
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = ProxyServer(), ProxyServer()
    for server in (first, second):
        await server.start()
    (tmp_path / "first.txt").write_text(first.proxy.url)
    (tmp_path / "second.txt").write_text(second.proxy.url)
    config = KitConfig(proxies=ProxyConfig(file="first.txt"))
    tools = WorkerTools(config, "tester/1", Unlimited(), SystemClock())

    async def fetch() -> None:
        await AsyncKit(structlog.get_logger(), tools, make_job({})).http.get(f"{site.url}/page")

    await fetch()
    tools.change(KitConfig(proxies=ProxyConfig(file="second.txt")))
    await fetch()
    with pytest.raises(InputFileError):
        tools.change(KitConfig(proxies=ProxyConfig(file="missing.txt")))
    with pytest.raises(SettingsError, match="this machine's own address"):
        tools.change(KitConfig())
    await fetch()
    await tools.close()
    for server in (first, second):
        await server.stop()
    # The first also fetched robots.txt; so did the second, for it may be told something else.
    assert (len(first.names), len(second.names)) == (2, 3)
    assert [asked.path for asked in site.requests].count("/page") == 3


async def test_a_browser_does_not_outlive_the_proxies_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proxies.txt").write_text("127.0.0.1:9")
    made: list[Any] = []
    retired: list[str] = []

    class NotingBrowsers(Browsers):
        def __init__(self, *args: Any, **options: Any) -> None:
            made.append(options["proxies"] and [proxy.url for proxy in options["proxies"].proxies])
            super().__init__(*args, **options)

        def retire(self, why: str) -> None:
            retired.append(why)

    monkeypatch.setattr("longshore.scrape.browser.Browsers", NotingBrowsers)
    tools = WorkerTools(KitConfig(), "tester/1", Unlimited(), SystemClock())
    assert AsyncKit(structlog.get_logger(), tools, make_job({})).browser is not None
    tools.change(KitConfig(proxies=ProxyConfig(file="proxies.txt")))
    assert retired == ["the proxies have changed"]
    assert AsyncKit(structlog.get_logger(), tools, make_job({})).browser is not None
    await tools.close()
    assert made == [None, ["http://127.0.0.1:9"]]


async def test_a_browser_asks_before_each_page_where_the_tor_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have died and been started again, and without it a browser would show the machine's own address (D3)."""
    monkeypatch.chdir(tmp_path)
    asked: list[Any] = []

    class NotingBrowsers(Browsers):
        def __init__(self, *args: Any, **options: Any) -> None:
            asked.append(options["current_proxy"])
            super().__init__(*args, **options)

    monkeypatch.setattr("longshore.scrape.browser.Browsers", NotingBrowsers)
    tools = WorkerTools(KitConfig(tor=True), "tester/1", Unlimited(), SystemClock())
    assert AsyncKit(structlog.get_logger(), tools, make_job({})).browser is not None
    assert asked == [tools.own_tor().plain_proxy]
    await tools.close()


async def test_a_worker_keeps_to_its_share_of_the_proxies_where_they_do_not_rotate(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text("\n".join(f"10.0.0.{n}:80" for n in range(10)))
    shares = [
        [proxy.url for proxy in own_proxies(ProxyConfig(file=str(file), rotation=False, number=n, workers=3))]
        for n in range(3)
    ]
    assert [len(share) for share in shares] == [4, 3, 3]
    assert len({url for share in shares for url in share}) == 10


async def test_tools_tell_that_every_proxy_rests_and_that_a_browser_takes_long_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proxies.txt").write_text("127.0.0.1:9")
    tools = WorkerTools(KitConfig(proxies=ProxyConfig(file="proxies.txt")), "tester/1", Unlimited(), SystemClock())
    assert tools.figures().waits == {}
    waiting = ProxyChange(at=0.0, what=ProxyEvent.WAITS, host="a.org", why="the only one rests")
    tools.proxy_waits(waiting)
    assert tools.figures().waits == {"proxies": "the only one rests at a.org"}
    tools.proxy_waits(msgspec.structs.replace(waiting, what=ProxyEvent.GOES_ON))
    assert tools.figures().waits == {}
    assert AsyncKit(structlog.get_logger(), tools, make_job({})).browser is not None
    for seconds, waits in ((4.0, {}), (6.0, {"browser": "it has been starting for 6 s"})):
        monkeypatch.setattr(Browsers, "waited_seconds", seconds)
        assert tools.figures().waits == waits
    await tools.close()
