"""The growth limits that the options of a command name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.wrappers.growth_limits import GrowthLimits


def growth_limits(max_depth: int | None, max_jobs: int | None) -> GrowthLimits | None:
    """Return the growth limits of a run; None if no option sets one."""
    if max_depth is None and max_jobs is None:
        return None
    # Imported here: most submissions set no limits, and the module imports parts of the worker.
    from longshore.runs.control.growth_limits import GrowthLimits

    return GrowthLimits(max_depth=max_depth, max_jobs=max_jobs)
