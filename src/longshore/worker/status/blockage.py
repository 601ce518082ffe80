"""Why a worker makes no progress at the moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Blockage:
    """The present obstacles of one worker. The event responder writes them, the progress lines show them."""

    queue_error: str = ""
    """The last error of the queue; empty once it has answered."""
    pause_reason: str = ""
    """Why no job may begin; empty while jobs may."""
    failed_check: str = ""
    """Which of the handlers' own health checks failed last; empty if none did."""
