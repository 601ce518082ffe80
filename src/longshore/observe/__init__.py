"""Observation of a running worker: its log lines and its health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.system.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from longshore.observe.health import Vitals
    from longshore.observe.logs import configure, log_context

__all__ = ["Vitals", "configure", "log_context"]

if not TYPE_CHECKING:  # type checkers must see each name
    __getattr__ = lazy_exports(__name__, {"Vitals": "health", "configure": "logs", "log_context": "logs"})
