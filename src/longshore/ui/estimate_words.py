"""An estimate of the time left, in words and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshore.system.printable import printable
from longshore.ui.words import left_words

if TYPE_CHECKING:
    from longshore.runs.estimate.estimate import Estimate

_WORDS = {
    "workers": ("the workers", "twice as many would take about half the time"),
    "host": ("the rate of {host}", "more workers would not help"),
    "retries": ("retries", "attempts that fail, and the pauses before the next"),
    "delays": ("delays", "jobs that may not begin yet"),
    "stragglers": ("stragglers", "a few long jobs, while most workers have nothing to do"),
    "nobody": ("no worker", "start one"),
}
"""The name of each binding constraint, and what it means."""


def binding_words(found: Estimate) -> str:
    """Return the binding constraint and what it means, in words; empty if it is not known."""
    if found.untaken:
        return f"{_bound_by(found)}: start a worker that takes {printable(', '.join(found.untaken))}"
    return "" if found.binds is None else f"{_bound_by(found)}: {_WORDS[found.binds][1]}"


def _bound_by(found: Estimate) -> str:
    return "" if found.binds is None else _WORDS[found.binds][0].format(host=printable(found.host))


def estimate_line(found: Estimate) -> str:
    """Return both times, the binding constraint and its meaning; or why the times are not known."""
    return _line(found, binding_words(found))


def short_estimate_line(found: Estimate) -> str:
    """Return the estimate without the meaning of the constraint: it fits into a hundred columns."""
    return _line(found, _bound_by(found))


def _line(found: Estimate, binds: str) -> str:
    if found.p50 is None:
        return f"time left not known yet: {printable(found.unknown)}"
    return f"{time_left(found)}; what binds: {binds}"


def time_left(found: Estimate) -> str:
    """Return `2 min 10 s to 3 min left`; empty if the time is not known."""
    return "" if found.p50 is None or found.p90 is None else left_words(found.p90, soonest=found.p50)


def estimate_json(found: Estimate) -> dict[str, Any]:
    """Return an estimate for JSON, in seconds from now."""
    import msgspec

    rounded = {name: None if value is None else round(value, 1) for name, value in _times(found).items()}
    return {
        **rounded,
        "binds": found.binds,
        **({"host": found.host} if found.host else {}),
        **({"untaken": found.untaken} if found.untaken else {}),
        **({"unknown": found.unknown} if found.unknown else {}),
        **({"basis": msgspec.to_builtins(found.basis)} if found.basis else {}),
    }


def _times(found: Estimate) -> dict[str, float | None]:
    return {"p50_seconds": found.p50, "p90_seconds": found.p90}
