"""Start a scraper by its name, as `longshore start` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.api.loops import wait_for

if TYPE_CHECKING:
    from longshore.runs.scrapers.registry import Jobs, Scraper
    from longshore.runs.scrapers.start import Finished, Queued


def start(
    scraper: str | Scraper,
    *,
    urls: Jobs | None = None,
    run: str | None = None,
    resume: bool = False,
    out: str | None = None,
    workers: int | None = None,
    max_depth: int | None = None,
    max_jobs: int | None = None,
    profile: str | None = None,
    queue: str | None = None,
) -> Queued | Finished:
    """Start a scraper by its name in `longshore.toml`, or one that is made here; the same as `longshore start`.

    In distributed mode, return when its jobs are in the queue, with the run's id and the workers' command. In single
    mode, run it here with `workers` processes, and return when the run has ended. `urls` is a file, a list or a
    function of URLs, payloads or jobs, or a source. `max_depth` and `max_jobs` limit follow-on jobs.
    """
    from longshore.runs.local.growth_options import growth_limits
    from longshore.runs.scrapers.registry import find_scraper, source_of
    from longshore.ui.local.scraper_start import start_scraper

    found = find_scraper(scraper) if isinstance(scraper, str) else _checked(scraper)
    source = None if urls is None else source_of(urls)
    given = {"workers": workers, "profile": profile, "queue": queue}
    limits = growth_limits(max_depth, max_jobs)
    return wait_for(start_scraper(found, given, source, run, resume=resume, out=out, limits=limits))


def _checked(scraper: Scraper) -> Scraper:
    from pathlib import Path

    from longshore.errors import SettingsError

    if faults := list(scraper.faults(Path())):
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise SettingsError(f"The scraper {scraper.name} cannot be used:{listed}")
    return scraper
