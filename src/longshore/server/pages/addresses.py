"""Addresses of the pages. Names of runs and ids of jobs are free text, so they are parameters and no parts of paths."""

from __future__ import annotations

from urllib.parse import urlencode

from longshore.ui.counts import NO_RUN


def address(path: str, **parameters: object) -> str:
    """Return the address of a page with those parameters that are not empty."""
    given = [(name, str(value)) for name, value in parameters.items() if value not in (None, "", False)]
    return f"{path}?{urlencode(given)}" if given else path


def run_name(run: str) -> str:
    """Return the name of a run in addresses and on pages; jobs without a run have one, too."""
    return run or NO_RUN


def run_of(name: str) -> str:
    """Return the run with this name."""
    return "" if name == NO_RUN else name


def run_address(run: str) -> str:
    """Return the address of the page of a run."""
    return address("/run", name=run_name(run))


def job_address(job_id: str) -> str:
    """Return the address of the page of a job."""
    return address("/job", id=job_id)


def jobs_address(*, run: str | None = None, **conditions: object) -> str:
    """Return the address of a list of jobs."""
    return address("/jobs", run=None if run is None else run_name(run), **conditions)


def local_path(text: str) -> str:
    """Return an address of this server that a request names, or `/`: a page must not send people elsewhere."""
    fits = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and len(text) < 4000
    return text if fits else "/"
