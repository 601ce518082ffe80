"""The checks of `longshore doctor` and `longshore fleet`: everything that keeps this machine from its work, at once.

`run_checks` is imported from its own module: the process that imports a handler file for the checks does not need it.
"""

from __future__ import annotations

from longshore.fleet.checks.finding import CheckPlan, CheckVerdict, Finding

__all__ = ["CheckPlan", "CheckVerdict", "Finding"]
