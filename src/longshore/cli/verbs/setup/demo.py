"""`longshore demo`: scrape a local site with several workers, to see how it works."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from longshore.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from longshore.demo.site import Site
    from longshore.job import Job
    from longshore.queue import Queue
    from longshore.runs.local.campaign import Conducted

PAGES = 150
WORKERS = 3
CONCURRENCY = 2
SECONDS = (0.1, 0.45)
KIND = "item"
ATTEMPTS = 3


def demo(debug: options.Debug = None) -> int:
    """Scrape a bundled local site with three workers: live progress, results, and what failed and why.

    Needs no network and takes less than half a minute. The site has slow pages, pages that fail at first, one that
    always fails and one that never answers, so two failures are part of it.
    """
    return asyncio.run(_demo(debug=debug))


async def _demo(*, debug: bool | None) -> int:
    import longshore.demo.items
    from longshore.clock import SystemClock
    from longshore.demo.site import DEMO_TROUBLES, Site
    from longshore.runs.export.results import write_results
    from longshore.runs.local.campaign import Campaign, conduct
    from longshore.runs.open_queue import open_or_create
    from longshore.runs.submit.input_files import InputFile, InputFormat
    from longshore.runs.submit.submission import SubmissionPlan, new_run_id, submit_file
    from longshore.settings import resolve
    from longshore.ui.local.campaign_view import CampaignView
    from longshore.ui.progress import console, run_progress

    to, clock = console(), SystemClock()
    folder = _folder()
    given = {"queue": f"sqlite:///{folder.as_posix()}/queue.db", "workers": WORKERS, "concurrency": CONCURRENCY}
    settings = resolve({**given, "min_delay_seconds": 0, "max_delay_seconds": 0, "debug": debug})
    site = Site(PAGES, DEMO_TROUBLES, SECONDS)
    async with site.served() as address, open_or_create(settings) as queue:
        _open(to, address)
        began = clock.monotonic()
        urls = folder / "urls.txt"
        site.write_urls(urls, address)
        run = await new_run_id(queue, clock)
        await submit_file(
            queue, InputFile(str(urls), InputFormat.URLS), SubmissionPlan(run=run, kind=KIND, max_attempts=ATTEMPTS)
        )
        # The site is our own, so its rate limit need not be learned.
        own = {"LONGSHORE_HOST_FIRST_RATE": "100", "LONGSHORE_DATA_FOLDER": folder.as_posix(), "LONGSHORE_TOR": "no"}
        campaign = Campaign(run, Path(longshore.demo.items.__file__), settings, folder / "logs", own)
        with run_progress(to) as shown:
            conducted = await conduct(queue, campaign, CampaignView(queue, campaign, shown))
        if conducted.count.remaining:
            from longshore.runs.submit.submission import Submission
            from longshore.ui.local.run_summary import Summary, tell

            tell(to, Summary(campaign, Submission(run)).unfinished(conducted))
            return 130 if conducted.interrupted else 1
        results = folder / "results.jsonl"
        await write_results(queue, run, str(results))
        return await _close(to, queue, site, conducted, folder, clock.monotonic() - began)


def _folder() -> Path:
    """Return a new folder for this demo: below the current folder if that is writable, else a temporary one."""
    here = Path(".longshore", "demo")
    try:
        here.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="longshore-demo-"))
    if not os.access(here, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="longshore-demo-"))
    number = 1
    while True:
        try:
            (made := here / str(number)).mkdir()
        except FileExistsError:
            number += 1
        else:
            return made


def _open(to: Console, address: str) -> None:
    from longshore.demo.site import DEMO_TROUBLES as TROUBLES

    to.print("[bold cyan]Longshore demo[/bold cyan]")
    to.print(f"A shop of {PAGES} pages is open on {address}, and {WORKERS} workers scrape it.")
    to.print(
        f"{len(TROUBLES.slow)} pages are slow, {len(TROUBLES.flaky)} fail at first, "
        f"{len(TROUBLES.broken)} always fails and {len(TROUBLES.hanging)} never answers.\n"
    )


async def _close(to: Console, queue: Queue, site: Site, conducted: Conducted, folder: Path, seconds: float) -> int:
    from rich.markup import escape

    from longshore.job import State
    from longshore.queue import Selection, each_job
    from longshore.runs.watch.failures import failure_groups
    from longshore.ui.local.run_summary import failures, width_of
    from longshore.ui.program import program
    from longshore.ui.words import duration, rate

    done = [job async for job in each_job(queue, Selection(states=frozenset({State.COMPLETED})))]
    failed = [job async for job in each_job(queue, Selection(states=frozenset({State.FAILED})))]
    run = done[0].run if done else failed[0].run
    as_planned = {_number(job) for job in failed} == site.troubles.fatal
    mark = "[green]✓[/green]" if as_planned else "[red]✗[/red]"
    to.print(
        f"{mark} [bold]{len(done)} pages scraped[/bold], {len(failed)} failed"
        + (" as planned" if as_planned else "")
        + f", in {duration(seconds)} ({rate(len(done) / seconds)})"
    )
    for name, text in _statistics(done, conducted, folder):
        to.print(f"  [dim]{name:<14}[/dim] {escape(text)}")
    if failed:
        to.print()
        for line in failures(await failure_groups(queue, run), width_of(to)):
            to.print(line)
    where = shlex.quote(f"sqlite:///{folder.as_posix()}/queue.db")
    to.print("\n[bold]Look next[/bold]")
    for what in ("status", "jobs --state failed", f"show {failed[0].id}" if failed else "jobs"):
        to.print(f"  [cyan]{escape(f'{program()} {what} --queue {where}')}[/cyan]")
    if not as_planned:
        to.print("[red]The demo did not go as planned: other pages failed than the two that were meant to.[/red]")
    return 0 if as_planned else 1


def _statistics(done: list[Job], conducted: Conducted, folder: Path) -> list[tuple[str, str]]:
    from collections import Counter

    from longshore.ui.words import duration

    by_worker = Counter(job.worker or "" for job in done)
    again = [job for job in done if job.attempts > 1]
    slowest = sorted(done, key=lambda job: job.seconds or 0.0)[-3:][::-1]
    times = sorted(job.seconds or 0.0 for job in done)
    rows = [("each worker", ", ".join(f"{count} pages" for _, count in sorted(by_worker.items())))]
    if again:
        rows.append(("second tries", f"{len(again)} pages failed at first and were scraped all the same"))
    if times:
        rows.append(("a page took", f"{duration(times[len(times) // 2])} in the middle, {duration(times[-1])} at most"))
        rows.append(("slowest", ", ".join(f"item {_number(job)} ({duration(job.seconds or 0.0)})" for job in slowest)))
    if restarts := sum(ending.restarts for ending in conducted.endings):
        rows.append(("restarts", f"{restarts} of a worker"))
    return [*rows, ("results", str(folder / "results.jsonl")), ("logs", str(folder / "logs"))]


def _number(job: Job) -> int:
    return int(str(job.payload["url"]).rpartition("/")[2])
