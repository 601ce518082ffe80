"""The checks of `longshore doctor` and of the launcher: what stands between this machine and its work, all at once."""

from __future__ import annotations

from longshore.fleet.checks.examine import examine
from longshore.fleet.checks.finding import Finding, Plan, Verdict

__all__ = ["Finding", "Plan", "Verdict", "examine"]
