"""How functions name a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.runs.scrapers.start import Finished, Queued
    from longshore.runs.submit.submission import Submission

    Run = str | Finished | Queued | Submission
    """A run by its id, or by what `run`, `start` or `submit` returned."""


def run_id(run: Run) -> str:
    """Return the id of a run."""
    return run if isinstance(run, str) else run.run_id
