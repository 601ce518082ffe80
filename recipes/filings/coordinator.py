"""Scan the filings of a year, put them into the queue, and watch the run.

    python -m filings.coordinator --year 2010 --limit 10 [--no-ai] [--queue-dir PATH] [--wait]

Without `--wait` it leaves at once. Later, `--wait` alone watches the newest run that is not finished.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import longshore
from filings import config
from filings.scan import KIND, Scan
from longshore import LongshoreError
from longshore.errors import NotFoundError, UsageError
from longshore.job import State

_EXIT_CODES = {"completed": 0, "cancelled": 3}


def submit(year: int, limit: int | None, run: str, *, ai: bool) -> None:
    """Put the filings of a year into the queue. Filings that the run has already are left out."""
    scan = Scan(year, limit)
    jobs = list(scan.jobs(ai=ai))
    if not jobs:
        raise UsageError(
            f"{config.source()} lists no filings of {year} that this recipe reads. Fix: --year, or EDGAR_URL in .env"
        )
    done = longshore.submit(KIND, jobs, run=run)
    print(
        f"{done.submitted:,} filings of {year} added to run {run}; {done.duplicates:,} were there already.", flush=True
    )
    if scan.unread:
        print(f"Lines of the lists that could not be read: {scan.unread:,}", flush=True)


def watch(run: str | None) -> int:
    """Show the progress of a run until it ends, then its statistics. Return the exit code of `longshore wait`."""
    try:
        end = longshore.wait(run)
    except NotFoundError:
        if run is None:
            print("No run has work left. Start one: python -m filings.coordinator --year 2010 --limit 10")
            return 0
        raise
    except KeyboardInterrupt:
        print("The run goes on. To watch it again: python -m filings.coordinator --wait")
        return 130
    print(f"Run {end.run_id} {end.ended}.")
    print("\n".join(statistics(end.run_id)))
    return _EXIT_CODES.get(end.ended, 1)


def statistics(run: str) -> list[str]:
    """Return what a run has found, and how long it took, in lines."""
    count = longshore.stats(run)
    facts, unread, workers = Counter[str](), Counter[str](), Counter[str]()
    dropped, seconds, begins, ends = 0, 0.0, list[float](), list[float]()
    for job in longshore.results(run):
        result = job.result if isinstance(job.result, dict) else {}
        facts.update(result.get("facts", {}))
        unread.update({each["code"] for each in result.get("unread", [])})
        dropped += result.get("dropped", 0)
        workers[job.worker or "?"] += 1
        seconds += job.seconds or 0.0
        if job.settled_at is not None:
            begins.append(job.settled_at - (job.seconds or 0.0))
            ends.append(job.settled_at)
    lines = [f"  filings    {count.completed:,} read, {count.failed:,} failed, {count.remaining:,} left"]
    found = ", ".join(f"{number:,} {kind}" for kind, number in sorted(facts.items())) or "none"
    lines.append(f"  facts      {found}; {dropped:,} values dropped that are not in the text")
    if unread:
        lines.append("  not read   " + ", ".join(f"{code} in {number:,}" for code, number in unread.most_common()))
    if ends:
        took = max(ends) - min(begins)
        each = seconds / len(ends)
        lines.append(f"  time       {took:,.1f} s from the first filing to the last, {each:,.2f} s a filing on average")
        lines.append("  workers    " + ", ".join(f"{name} {number:,}" for name, number in sorted(workers.items())))
    lines += [
        f"  failed     {job.payload['accession']}: {_why(job)}" for job in longshore.jobs(run, state=State.FAILED)
    ]
    return lines


def _why(job: longshore.Job) -> str:
    return "" if job.failure is None else job.failure.message[:200]


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command, and return its exit code."""
    given = _options().parse_args(arguments)
    try:
        config.prepare(config.queue_of(given.queue_dir))
        if given.year is None:
            if not given.wait:
                raise UsageError("Which year? Give --year 2010, or --wait to watch a run that goes on.")
            return watch(given.run)
        run = given.run or f"filings-{given.year}"
        submit(given.year, given.limit, run, ai=not given.no_ai and config.uses_model())
        if given.wait:
            return watch(run)
        print("Start workers: python -m filings.worker. Watch the run: python -m filings.coordinator --wait")
    except LongshoreError as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m filings.coordinator", description="Coordinate the reading of filings."
    )
    options.add_argument("--year", type=int, help="the year of the filings")
    options.add_argument("--limit", type=int, metavar="N", help="only the first N filings of the lists")
    options.add_argument("--no-ai", action="store_true", help="find facts by rules alone (USE_AI_EXTRACTION=false)")
    options.add_argument("--queue-dir", metavar="PATH", help="the folder of the queue (QUEUE_DIR, data/queue)")
    options.add_argument("--run", help="the name of the run (filings-YEAR)")
    options.add_argument("--wait", action="store_true", help="watch the run until it ends")
    return options


if __name__ == "__main__":
    sys.exit(main())
