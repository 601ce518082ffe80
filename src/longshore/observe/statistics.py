"""Rates, durations and the final statistics of a worker, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta


def per_hour(jobs: int, seconds: float) -> float:
    """Return the number of jobs per hour."""
    return jobs / seconds * 3600 if seconds > 0 else 0.0


def jobs_rate(per_second: float, *, hourly: bool = False) -> str:
    """Return a rate in words: `2.1 jobs/hour`, or `812 jobs/s` from one a second on, unless it is to be `hourly`."""
    if per_second >= 1 and not hourly:
        return f"{per_second:,.0f} jobs/s" if per_second >= 10 else f"{per_second:.1f} jobs/s"
    an_hour = per_second * 3600
    return f"{an_hour:,.0f} jobs/hour" if an_hour >= 10 else f"{an_hour:.1f} jobs/hour"


def about(seconds: float) -> str:
    """Return a duration in one unit, for a narrow place: `42 s`, `3 min`, `5 h`, `2 days`."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.0f} days"


def final_statistics(*, completed: int, failed: int, retried: int, seconds: float, notes: Sequence[str] = ()) -> str:
    """Return a text such as `2 completed, 1 failed, 4 retried, runtime 0:01:00, 180 jobs/hour`.

    Completed and failed are finished jobs, and the rate counts them; retried are attempts that failed and whose job is
    retried. `notes` are inserted between the counts and the runtime.
    """
    parts = [f"{completed:,} completed", f"{failed:,} failed"]
    parts += [f"{retried:,} retried"] if retried else []
    rate = per_hour(completed + failed, seconds)
    return ", ".join([*parts, *notes, f"runtime {timedelta(seconds=round(seconds))}", f"{rate:,.0f} jobs/hour"])
