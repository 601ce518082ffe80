"""`longshore proxies`, and `longshore proxies check` against real proxies on this machine (B4)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp_socks import ProxyConnectionError
from tests.scrape.proxy_servers import ProxyServer, Site, SocksServer

from longshore.cli import main
from longshore.clock import SystemClock
from longshore.scrape.proxies import ProxyLimits, ProxyPool, Strategy
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.proxies.status_file import ProxyStatusWriter
from longshore.system.loop_thread import LoopThread

linux = sys.platform == "linux"


class Outside:
    """Proxies and a site, run beside the command by a thread of their own."""

    def __init__(self) -> None:
        self.thread = LoopThread("outside")
        self.site = Site()
        self.http = ProxyServer(source="127.0.1.1" if linux else "127.0.0.1", login=("ann", "geheim"))
        self.socks = SocksServer(source="127.0.1.2" if linux else "127.0.0.1")
        self.gone = ProxyServer()
        self._open = AsyncExitStack()

    async def start(self) -> None:
        await self._open.enter_async_context(self.site.running())
        for server in (self.http, self.socks, self.gone):
            await server.start()
        self.gone_proxy = self.gone.proxy
        await self.gone.stop()
        for server in (self.http, self.socks):
            self._open.push_async_callback(server.stop)

    async def secure(self, folder: Path) -> str:
        """The URL of a page that is served over TLS."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        app = web.Application()
        app.router.add_get("/", self.site.tell)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        self._open.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        return f"https://127.0.0.1:{runner.addresses[0][1]}/"

    def close(self) -> None:
        self.thread.call(self._open.aclose())
        self.thread.close()


@pytest.fixture
def outside() -> Iterator[Outside]:
    made = Outside()
    made.thread.call(made.start())
    yield made
    made.close()


def write(folder: Path, *lines: str) -> Path:
    path = folder / "proxies.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_table_says_which_work_and_what_is_wrong_with_the_others(
    here: Path, outside: Outside, says: Callable[..., str]
) -> None:
    login, _, place = outside.http.proxy.url.removeprefix("http://").partition("@")
    write(here, f"{place}:{login}", outside.socks.proxy.url, outside.gone_proxy.url)
    shown = says("proxies", "check", "--file", "proxies.txt", "--url", f"{outside.site.url}/json")
    head, first, second, third, summary = shown.splitlines()
    assert head.split() == ["proxy", "state", "took", "comes", "out", "as", "why"]
    assert first.split()[:2] == [f"http://ann:***@{place}", "ok"]
    assert outside.http.source in first
    assert outside.socks.source in second
    assert third.split()[1] == "failed"
    assert "the proxy cannot be reached" in third
    assert summary.startswith("2 of 3 work")
    assert "geheim" not in shown


def test_json_says_the_same(here: Path, outside: Outside, says: Callable[..., str]) -> None:
    write(here, outside.http.proxy.url, outside.gone_proxy.url)
    shown = json.loads(says("proxies", "check", "--file", "proxies.txt", "--url", f"{outside.site.url}/json", "--json"))
    assert (shown["ok"], shown["working"]) == (True, 1)
    good, bad = shown["proxies"]
    assert (good["ok"], good["exit_address"], good["why"]) == (True, outside.http.source, "")
    assert good["seconds"] > 0
    assert (bad["ok"], bad["seconds"]) == (False, None)
    assert "geheim" not in json.dumps(shown)


def test_where_none_works_the_exit_code_is_1(
    here: Path, outside: Outside, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, outside.gone_proxy.url)
    monkeypatch.setenv("PROXY_FILE", "proxies.txt")
    monkeypatch.setenv("LONGSHORE_EGRESS_CHECK_URL", f"{outside.site.url}/json")
    assert main(("proxies", "check")) == 1
    assert "0 of 1 work. Fetched: http://127.0.0.1" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_page_over_tls_is_fetched_through_a_tunnel(here: Path, outside: Outside) -> None:
    curve, names = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"), ("-subj", "/CN=localhost")
    files = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem")
    make = ("openssl", "req", "-x509", *curve, "-nodes", "-days", "2", *names, *files)
    subprocess.run(make, cwd=here, check=True, capture_output=True)
    page = outside.thread.call(outside.secure(here))
    write(here, outside.http.proxy.url, outside.socks.proxy.url)
    done = subprocess.run(
        [sys.executable, "-m", "longshore", "proxies", "check", "--file", "proxies.txt", "--url", page, "--json"],
        cwd=here,
        env={**os.environ, "SSL_CERT_FILE": str(here / "cert.pem")},
        capture_output=True,
        encoding="utf-8",
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    assert [each["exit_address"] for each in shown["proxies"]] == [outside.http.source, outside.socks.source]
    assert outside.http.tunnels == 1


def test_what_cannot_be_carried_out_is_refused(here: Path, refused: Callable[..., str]) -> None:
    assert "Give it with --file, or set PROXY_FILE" in refused("proxies", "check")
    assert "Write `longshore proxies` or with `check`" in refused("proxies", "mend")
    assert "--file and --url are for `longshore proxies check`" in refused("proxies", "--file", "proxies.txt")
    assert "cannot be read" in refused("proxies", "check", "--file", "nowhere.txt")
    write(here, "10.0.0.1:80")
    assert "not a URL" in refused("proxies", "check", "--file", "proxies.txt", "--url", "nonsense")


def pool_of(*proxies: str) -> ProxyPool:
    # Sticky, so that it is known which of them takes a turn.
    limits = ProxyLimits(threshold=2)
    return ProxyPool([Proxy(f"http://ann:geheim@{each}") for each in proxies], limits=limits, strategy=Strategy.STICKY)


def fail(pool: ProxyPool, proxy: int, host: str, times: int, status: int = 403) -> None:
    async def go() -> None:
        for _ in range(times):
            (await pool.acquire(host, prefer=[pool.proxies[proxy].url])).answered(status)

    asyncio.run(go())


def unreachable(pool: ProxyPool, proxy: int, host: str, times: int) -> None:
    async def go() -> None:
        for _ in range(times):
            turn = await pool.acquire(host, prefer=[pool.proxies[proxy].url])
            turn.failed(ProxyConnectionError("Connection refused"))

    asyncio.run(go())


def serve(pool: ProxyPool, proxy: int, host: str) -> None:
    async def go() -> None:
        (await pool.acquire(host, prefer=[pool.proxies[proxy].url])).answered(200)

    asyncio.run(go())


def test_the_table_says_who_rests_where_and_why(here: Path, says: Callable[..., str]) -> None:
    assert "No worker of this folder has had proxies" in says("proxies")
    pools = [pool_of("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80") for _ in range(2)]
    fail(pools[0], 0, "shop.test", 2)
    serve(pools[1], 0, "shop.test")
    serve(pools[0], 1, "shop.test")
    serve(pools[0], 1, "calm.test")
    for number, pool in enumerate(pools):
        ProxyStatusWriter(here / ".longshore" / "proxies", f"worker-{number}/1", SystemClock()).post(pool)

    calm, _, second, _, title, head, banned, fine, _, left, said = says("proxies").splitlines()
    assert calm == "At calm.test: 1 serve"
    assert second.split() == ["http://ann:***@10.0.0.2:80", "serves", "1", "0"]
    assert title == "At shop.test: 1 rest (answered 403 Forbidden), 1 serve"
    assert head.split() == ["proxy", "state", "requests", "failed", "changed", "why"]
    assert banned.startswith("http://ann:***@10.0.0.1:80  rests 60 min, for 1 of 2 ")
    assert banned.endswith("2 × answered 403 Forbidden")
    assert fine.split() == ["http://ann:***@10.0.0.2:80", "serves", "1", "0"]
    assert left == "1 of the proxies was not used yet."
    assert said.startswith("As known to 2 workers, ")

    shown = json.loads(says("proxies", "--json"))
    assert [each["worker"] for each in shown["workers"]] == ["worker-0", "worker-1"]
    row = next(each for each in shown["proxies"] if each["resting"])
    assert (row["proxy"], row["host"], row["state"]) == ("http://ann:***@10.0.0.1:80", "shop.test", "resting")
    assert (row["requests"], row["failed"], row["failures"]) == (3, 2, 2)
    assert row["until"] - row["since"] == pytest.approx(3600, abs=5)
    assert shown["unused"] == ["http://ann:***@10.0.0.3:80"]
    assert "geheim" not in json.dumps(shown)


def test_a_proxy_that_rests_at_every_host_does_not_serve_at_one(here: Path, says: Callable[..., str]) -> None:
    pool = pool_of("10.0.0.1:80", "10.0.0.2:80")
    unreachable(pool, 0, "shop.test", 2)
    serve(pool, 1, "shop.test")
    ProxyStatusWriter(here / ".longshore" / "proxies", "worker/1", SystemClock()).post(pool)

    everywhere, _, gone, _, title, _, fine, *_ = says("proxies").splitlines()
    assert everywhere == "At every host: 1 rest (Connection refused)"
    assert gone.startswith("http://ann:***@10.0.0.1:80  rests 60 min")
    assert title == "At shop.test: 1 serve, 1 rest at every host"
    assert fine.split() == ["http://ann:***@10.0.0.2:80", "serves", "1", "0"]

    rows = {(row["host"], row["proxy"][-12:]): row for row in json.loads(says("proxies", "--json"))["proxies"]}
    there = rows["shop.test", "@10.0.0.1:80"]
    assert (there["state"], there["everywhere"]) == ("resting", True)
    assert not rows["shop.test", "@10.0.0.2:80"]["everywhere"]


def test_a_proxy_that_has_only_failed_is_not_said_to_serve(here: Path, says: Callable[..., str]) -> None:
    for number in range(2):
        pool = pool_of("10.0.0.1:80", "10.0.0.2:80")
        fail(pool, 0, "shop.test", 1)
        serve(pool, 1, "shop.test")
        ProxyStatusWriter(here / ".longshore" / "proxies", f"worker-{number}/1", SystemClock()).post(pool)
    title, _, failing, fine, *_ = says("proxies").splitlines()
    assert title == "At shop.test: 1 only failed (answered 403 Forbidden), 1 serve"
    assert failing.split()[:5] == ["http://ann:***@10.0.0.1:80", "only", "failed", "2", "2"]
    assert fine.split() == ["http://ann:***@10.0.0.2:80", "serves", "2", "0"]
    assert {row["state"] for row in json.loads(says("proxies", "--json"))["proxies"]} == {"failing", "serving"}


def test_several_reasons_to_rest_are_counted(here: Path, says: Callable[..., str]) -> None:
    pool = pool_of("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")
    for proxy, status in enumerate((403, 403, 429)):
        fail(pool, proxy, "shop.test", 2, status)
    ProxyStatusWriter(here / ".longshore" / "proxies", "worker/1", SystemClock()).post(pool)
    title = says("proxies").splitlines()[0]
    assert title == "At shop.test: 3 rest (2 answered 403 Forbidden, 1 answered 429 Too Many Requests)"


def test_hosts_where_nothing_happens_are_only_counted(here: Path, says: Callable[..., str]) -> None:
    pool = pool_of("10.0.0.1:80")
    for host in ("a.test", "b.test", "c.test"):
        serve(pool, 0, host)
    ProxyStatusWriter(here / ".longshore" / "proxies", "worker/1", SystemClock()).post(pool)
    assert says("proxies").splitlines()[0] == "At 3 hosts all serve."
    fail(pool, 0, "d.test", 2)
    ProxyStatusWriter(here / ".longshore" / "proxies", "worker/1", SystemClock()).post(pool)
    shown = says("proxies")
    assert shown.startswith("At d.test: 1 rest (answered 403 Forbidden)\n")
    assert "\nAt 3 other hosts all serve.\n" in shown
