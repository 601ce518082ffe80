"""The figures of a worker for metrics and health checks. They are a part of its status, which its fleet gets anyway."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.observe.health import Vitals
from longshore.scrape.proxies.counters import ProxyTotals
from longshore.worker.status.counters import WorkerCounters

_LONGEST_REASON = 200


class ToolFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures of the tools that handlers use."""

    waits: Mapping[str, str] = {}
    """The tools that no request can use now (`tor`, `browser`, `proxies`), each with the reason."""
    proxies: ProxyTotals | None = None
    browsers: int = 0
    """Browsers that run."""
    recycled: Mapping[str, int] = {}
    """Browsers that were replaced, by reason."""
    records_kept: int = 0
    records_rejected: int = 0


class WorkerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one worker at one moment."""

    vitals: Vitals
    counters: WorkerCounters
    tools: ToolFigures = ToolFigures()
    held: int = 0
    """Jobs that it claimed and has not settled."""
    slots: int = 0
    """Attempts that may be under way at once."""
    waits: Mapping[str, str] = {}
    """The things that keep it from beginning a job (`queue`, `egress`, `tor`, …), each with the reason."""

    @property
    def ready(self) -> bool:
        """Whether it can begin a job."""
        return not self.waits


def waits_in_words(waits: Mapping[str, str]) -> str:
    """Return what a worker waits for, as one text; empty if it waits for nothing."""
    return "; ".join(f"{what}: {why[:_LONGEST_REASON]}" for what, why in waits.items())
