"""Imports that earlier versions documented keep working."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from longshore.renamed import RENAMED

DOCUMENTED = [
    ("fleet.us_states", "US_STATES", None),
    ("runs.recording", "read_recording", "longshore.runs.estimate.recorded_runs"),
    ("runs.recording", "replay", "longshore.runs.estimate.recorded_runs"),
    ("runs.records", "surveyed", "longshore.runs.records.run_records"),
    ("scrape.browser", "find_browser", "longshore.scrape.browser.find_browser"),
    ("scrape.browser", "Browsers", "longshore.scrape.browser.browsers"),
    ("scrape.bundles", "Bundles", "longshore.scrape.capture.failure_bundles"),
    ("scrape.cache", "PageCache", "longshore.scrape.http.page_cache"),
    ("scrape.exchange", "Exchange", "longshore.scrape.capture.exchange"),
    ("scrape.http", "Http", "longshore.scrape.http.client"),
    ("scrape.http", "StatusError", "longshore.scrape.http.response"),
    ("scrape.offline", "Answers", "longshore.scrape.http.offline"),
    ("scrape.offline", "NotKeptError", "longshore.scrape.http.offline"),
    ("scrape.offline", "OfflineSyncHttp", "longshore.scrape.http.offline"),
    ("scrape.pace", "LearnedPace", "longshore.pacing.limiter"),
    ("scrape.pacing", "HostClosedError", "longshore.pacing.contract"),
    ("scrape.pages", "PageStore", "longshore.scrape.capture.page_store"),
    ("scrape.proxies", "ChangeLog", "longshore.scrape.proxies.change_log"),
    ("scrape.proxies", "Limits", "longshore.scrape.proxies.health"),
    ("scrape.proxies", "NoProxyError", "longshore.scrape.proxies.pool"),
    ("scrape.proxies", "ProxyPool", "longshore.scrape.proxies.pool"),
    ("scrape.proxies", "Strategy", "longshore.scrape.proxies.strategies"),
    ("scrape.proxies.connection", "connector_for", "longshore.scrape.proxies.connection"),
    ("scrape.proxies.connection", "request_proxy", "longshore.scrape.proxies.connection"),
    ("scrape.proxy_file", "Proxy", "longshore.scrape.proxies.proxy_file"),
    ("scrape.proxy_file", "read_proxies", "longshore.scrape.proxies.proxy_file"),
    ("scrape.rate", "Policy", "longshore.pacing.host_rate"),
    ("scrape.records", "Emission", "longshore.scrape.records.emission"),
    ("scrape.records", "RecordWriter", "longshore.scrape.records.writer"),
    ("scrape.records", "Survey", "longshore.scrape.records.reader"),
    ("scrape.robots", "RobotsError", "longshore.scrape.http.robots"),
    ("scrape.signature", "Signature", "longshore.scrape.capture.failure_signature"),
    ("scrape.tor", "Tor", "longshore.scrape.tor.process"),
    ("scrape.tor", "TorMissingError", "longshore.scrape.tor.process"),
    ("scrape.trail", "Trail", "longshore.scrape.capture.trail"),
]


@pytest.fixture(autouse=True)
def not_imported_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for old in RENAMED:
        monkeypatch.delitem(sys.modules, old, raising=False)


@pytest.mark.parametrize(("module", "name", "defined_in"), DOCUMENTED)
@pytest.mark.filterwarnings("ignore:longshore.* is now:DeprecationWarning")
def test_a_documented_import_finds_the_object_of_today(module: str, name: str, defined_in: str | None) -> None:
    found = getattr(importlib.import_module(f"longshore.{module}"), name)
    assert defined_in is None or found.__module__ == defined_in


def test_every_renamed_module_was_documented() -> None:
    assert set(RENAMED) <= {f"longshore.{module}" for module, _, _ in DOCUMENTED}


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_warns_with_the_new_one(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is now {RENAMED[old]}"):
        importlib.import_module(old)


def test_a_name_that_never_existed_is_an_import_error() -> None:
    code = "from longshore.scrape.bundles import Nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot import name 'Nothing'" in done.stderr
