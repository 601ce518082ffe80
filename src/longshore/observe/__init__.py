"""What can be seen of a running worker: its log lines and its health."""

from __future__ import annotations

from longshore.observe.health import Vitals
from longshore.observe.logs import configure, log_context

__all__ = ["Vitals", "configure", "log_context"]
