"""How many proxies rest, at the end of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.clock import SystemClock
from longshore.scrape.proxies import ProxyLimits, ProxyPool
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.proxies.status_file import ProxyStatusWriter
from longshore.settings import resolve
from longshore.ui.proxy_words import resting_proxies


async def post(folder: Path, worker: str, addresses: list[str], *, status: int) -> None:
    """Let a worker have these proxies, ask a site once through each, and end."""
    pool = ProxyPool([Proxy(f"http://ann:secret@{each}") for each in addresses], limits=ProxyLimits(threshold=1))
    for proxy in pool.proxies:
        (await pool.acquire("shop.test", prefer=[proxy.url])).answered(status)
    ProxyStatusWriter(folder, worker, SystemClock()).post(pool)


async def test_proxies_that_the_workers_of_this_run_did_not_have_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROXY_FILE", "proxies.txt")
    (tmp_path / "proxies.txt").write_text("http://ann:secret@10.0.0.1:80\nhttp://ann:secret@10.0.0.2:80\n")
    settings = resolve({})
    folder = tmp_path / ".longshore" / "proxies"
    assert resting_proxies(settings) == ""
    await post(folder, "worker_7/1", ["10.9.9.8:80", "10.9.9.9:80"], status=403)
    assert resting_proxies(settings) == ""
    await post(folder, "worker_0/1", ["10.0.0.1:80", "10.0.0.2:80"], status=200)
    assert resting_proxies(settings) == "0 of 2 rest"
    await post(folder, "worker_1/1", ["10.0.0.1:80"], status=403)
    assert resting_proxies(settings) == "1 of 2 rest"
    (tmp_path / "proxies.txt").unlink()
    assert resting_proxies(settings) == "3 of 4 rest"
