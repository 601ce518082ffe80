"""The final statistics of a worker, in the same format for all workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta


def per_hour(jobs: int, seconds: float) -> float:
    """Return the number of jobs per hour."""
    return jobs / seconds * 3600 if seconds > 0 else 0.0


def final_statistics(*, completed: int, failed: int, retried: int, seconds: float, notes: Sequence[str] = ()) -> str:
    """Return a text such as `2 completed, 1 failed, 4 retried, runtime 0:01:00, 180 jobs/hour`.

    Completed and failed are finished jobs, and the rate counts them; retried are attempts that failed and whose job is
    retried. `notes` are inserted between the counts and the runtime.
    """
    parts = [f"{completed:,} completed", f"{failed:,} failed"]
    parts += [f"{retried:,} retried"] if retried else []
    rate = per_hour(completed + failed, seconds)
    return ", ".join([*parts, *notes, f"runtime {timedelta(seconds=round(seconds))}", f"{rate:,.0f} jobs/hour"])
