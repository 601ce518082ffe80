"""Imports that earlier versions documented keep working."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import longshore.scrape
from longshore.scrape.former_modules import FORMER_MODULES

DOCUMENTED = [
    ("browser", "find_browser", "longshore.scrape.browser.find_browser"),
    ("browser", "Browsers", "longshore.scrape.browser.browsers"),
    ("bundles", "Bundles", "longshore.scrape.capture.failure_bundles"),
    ("cache", "PageCache", "longshore.scrape.http.page_cache"),
    ("exchange", "Exchange", "longshore.scrape.capture.exchange"),
    ("http", "Http", "longshore.scrape.http.client"),
    ("http", "StatusError", "longshore.scrape.http.response"),
    ("offline", "Answers", "longshore.scrape.http.offline"),
    ("offline", "NotKeptError", "longshore.scrape.http.offline"),
    ("offline", "OfflineSyncHttp", "longshore.scrape.http.offline"),
    ("pace", "LearnedPace", "longshore.pacing.limiter"),
    ("pages", "PageStore", "longshore.scrape.capture.page_store"),
    ("proxies", "ChangeLog", "longshore.scrape.proxies.change_log"),
    ("proxies", "Limits", "longshore.scrape.proxies.health"),
    ("proxies", "NoProxyError", "longshore.scrape.proxies.pool"),
    ("proxies", "ProxyPool", "longshore.scrape.proxies.pool"),
    ("proxies", "Strategy", "longshore.scrape.proxies.strategies"),
    ("proxies.connection", "connector_for", "longshore.scrape.proxies.connection"),
    ("proxies.connection", "request_proxy", "longshore.scrape.proxies.connection"),
    ("proxy_file", "Proxy", "longshore.scrape.proxies.proxy_file"),
    ("proxy_file", "read_proxies", "longshore.scrape.proxies.proxy_file"),
    ("rate", "Policy", "longshore.pacing.host_rate"),
    ("records", "Emission", "longshore.scrape.records.emission"),
    ("records", "RecordWriter", "longshore.scrape.records.writer"),
    ("records", "Survey", "longshore.scrape.records.reader"),
    ("signature", "Signature", "longshore.scrape.capture.failure_signature"),
    ("tor", "Tor", "longshore.scrape.tor.process"),
    ("tor", "TorMissingError", "longshore.scrape.tor.process"),
    ("trail", "Trail", "longshore.scrape.capture.trail"),
]


@pytest.mark.parametrize(("module", "name", "defined_in"), DOCUMENTED)
def test_a_documented_import_finds_the_class_of_today(module: str, name: str, defined_in: str) -> None:
    found = getattr(importlib.import_module(f"longshore.scrape.{module}"), name)
    assert found.__module__ == defined_in


def test_every_former_module_was_documented() -> None:
    assert set(FORMER_MODULES) <= {module for module, _, _ in DOCUMENTED}


@pytest.mark.parametrize("module", FORMER_MODULES)
def test_a_former_module_is_an_attribute_of_the_package(module: str) -> None:
    assert getattr(longshore.scrape, module) is sys.modules[f"longshore.scrape.{module}"]


def test_a_name_that_never_existed_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from longshore.scrape.bundles import Nothing  # type: ignore[import-not-found]  # noqa: F401


def test_the_package_imports_none_of_the_modules_it_forwards_to() -> None:
    targets = {target for target, _ in FORMER_MODULES.values()}
    program = f"import sys, longshore.scrape; print(sorted(set({sorted(targets)!r}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
