"""The growth limits that the options of a command name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.wrappers.growth_limits import GrowthLimits


def growth_limits(max_depth: int | None, max_jobs: int | None) -> GrowthLimits | None:
    """How far a run may grow, where the options say so."""
    if max_depth is None and max_jobs is None:
        return None
    # Only here: most submissions have none, and the worker's parts take a while to import.
    from longshore.runs.control.growth_limits import GrowthLimits

    return GrowthLimits(max_depth=max_depth, max_jobs=max_jobs)
