"""Proxies: the choice of the proxy for each request, and the cooldown of proxies that fail."""

from __future__ import annotations

from longshore.scrape.proxies.blame import Blame, blame_of, is_unreachable
from longshore.scrape.proxies.change_log import ChangeLog, ProxyChange, ProxyEvent
from longshore.scrape.proxies.counters import HostCounters, ProxyCounters
from longshore.scrape.proxies.health import ProxyLimits
from longshore.scrape.proxies.pool import NoProxyError, ProxyPool, ProxyTurn
from longshore.scrape.proxies.proxy_source import ProxySource, TakenProxy
from longshore.scrape.proxies.strategies import Strategy, share

Limits = ProxyLimits
"""The name of `ProxyLimits` in earlier versions."""

__all__ = [
    "Blame",
    "ChangeLog",
    "HostCounters",
    "Limits",
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
