"""The checks of `longshore doctor` and of the launcher: they find everything that keeps this machine from its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.fleet.checks.finding import CheckPlan, CheckVerdict, Finding

if TYPE_CHECKING:
    from longshore.fleet.checks.run_checks import run_checks
else:
    from longshore.system.lazy_exports import lazy_exports

    # Lazy: the process that imports a handler file for the checks runs none of them.
    __getattr__ = lazy_exports(__name__, {"run_checks": "run_checks"})

__all__ = ["CheckPlan", "CheckVerdict", "Finding", "run_checks"]
