"""Proxies: which one makes the next request, which ones rest, and why."""

from __future__ import annotations

from longshore.scrape.proxies.blame import Blame, blame_of, is_unreachable
from longshore.scrape.proxies.changes import Change, ChangeLog, What
from longshore.scrape.proxies.health import Limits
from longshore.scrape.proxies.pool import NoProxyError, ProxyPool, Turn
from longshore.scrape.proxies.standing import Place, Standing
from longshore.scrape.proxies.strategies import Strategy, share
from longshore.scrape.proxies.turns import TakenTurn, Turns

__all__ = [
    "Blame",
    "Change",
    "ChangeLog",
    "Limits",
    "NoProxyError",
    "Place",
    "ProxyPool",
    "Standing",
    "Strategy",
    "TakenTurn",
    "Turn",
    "Turns",
    "What",
    "blame_of",
    "is_unreachable",
    "share",
]
