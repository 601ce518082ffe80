"""The counts of a run as columns, rates and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshore.queue import Count

NO_RUN = "(no run)"
NO_NAME = "(none)"
COLUMNS = ("pending", "claimed", "completed", "failed", "cancelled", "remaining")


def rates(count: Count, claims: float | None = None, utilisation: float | None = None) -> dict[str, float]:
    """The rates that can be known, 1 being all."""
    known = {"completion_rate": (count.total - count.remaining) / count.total} if count.total else {}
    if judged := count.completed + count.failed:
        known["success_rate"] = count.completed / judged
    if claims is not None:
        known["claim_success_rate"] = claims
    return known if utilisation is None else {**known, "utilisation": utilisation}


def numbers(count: Count) -> dict[str, int]:
    """The counts by name."""
    return {name: getattr(count, name) for name in COLUMNS}


def count_json(count: Count) -> dict[str, Any]:
    """A count with the names of what it counts, where it has them."""
    names = {name: getattr(count, name) for name in ("run", "kind", "partition") if getattr(count, name)}
    return {**names, **numbers(count)}
