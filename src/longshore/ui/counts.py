"""The counts of a run as columns, rates and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshore.queue import Count

NO_RUN = "(no run)"
NO_NAME = "(none)"
COLUMNS = ("pending", "claimed", "completed", "failed", "cancelled", "remaining")


def rates(count: Count, claims: float | None = None, utilisation: float | None = None) -> dict[str, float]:
    """Return the known rates, from 0 to 1."""
    known = {"completion_rate": (count.total - count.remaining) / count.total} if count.total else {}
    if judged := count.completed + count.failed:
        known["success_rate"] = count.completed / judged
    if claims is not None:
        known["claim_success_rate"] = claims
    return known if utilisation is None else {**known, "utilisation": utilisation}


def numbers(count: Count) -> dict[str, int]:
    """Return the counts by name."""
    return {name: getattr(count, name) for name in COLUMNS}


def count_json(count: Count) -> dict[str, Any]:
    """Return a count for JSON, with its run, kind and partition if it has them."""
    names = {name: getattr(count, name) for name in ("run", "kind", "partition") if getattr(count, name)}
    return {**names, **numbers(count)}
