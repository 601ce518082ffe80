"""Proxies: which one makes the next request, which ones rest, and why."""

from __future__ import annotations

from longshore.scrape.proxies.blame import Blame, blame_of, is_unreachable
from longshore.scrape.proxies.change_log import ChangeLog, ProxyChange, ProxyEvent
from longshore.scrape.proxies.counters import HostCounters, ProxyCounters
from longshore.scrape.proxies.health import ProxyLimits
from longshore.scrape.proxies.pool import NoProxyError, ProxyPool, ProxyTurn
from longshore.scrape.proxies.proxy_source import ProxySource, TakenProxy
from longshore.scrape.proxies.strategies import Strategy, share

__all__ = [
    "Blame",
    "ChangeLog",
    "HostCounters",
    "NoProxyError",
    "ProxyChange",
    "ProxyCounters",
    "ProxyEvent",
    "ProxyLimits",
    "ProxyPool",
    "ProxySource",
    "ProxyTurn",
    "Strategy",
    "TakenProxy",
    "blame_of",
    "is_unreachable",
    "share",
]
