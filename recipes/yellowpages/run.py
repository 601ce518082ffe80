"""Check everything, show the plan, ask, and start the workers.

python -m yellowpages.run [--test] [--workers N] [--states CA,TX] [--yes]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import longshore
from longshore import LongshoreError
from longshore.cli import main as longshore_command
from longshore.errors import NotFoundError, UsageError
from longshore.scrape.browser import find_browser
from longshore.settings import resolve
from yellowpages.assignments import TABLE, WORKERS
from yellowpages.config import mode
from yellowpages.targets import RUN, states_of

HANDLERS = Path(__file__).with_name("handlers.py")


def check(run: str, states: Sequence[str]) -> str:
    """Return the mode in which pages are fetched. Raise an error for what only this recipe can know."""
    if not Path(".env").is_file():
        example = os.path.relpath(HANDLERS.with_name(".env.example"))
        raise UsageError(f"There is no .env in this folder. Fix: cp {example} .env")
    chosen = mode()
    if chosen == "browser":
        find_browser()
    fix = "Fix: python -m yellowpages.targets --states"
    try:
        there = {count.partition for count in longshore.status(run)}
    except NotFoundError as error:
        raise UsageError(f"There are no targets in run {run}. {fix} {','.join(states) or 'all'}") from error
    if missing := [state for state in states if state not in there]:
        raise UsageError(f"There are no targets of {', '.join(missing)} in run {run}. {fix} {','.join(missing)}")
    return chosen


def command(given: argparse.Namespace, states: Sequence[str]) -> list[str]:
    """Return the command line of `longshore fleet`."""
    settings = resolve({})
    named = settings.workers if "workers" in settings.sources else WORKERS
    workers = named if given.workers is None else given.workers
    # Another number of workers divides the states evenly, each worker with its share.
    table = ["--table", os.path.relpath(TABLE)] if workers == WORKERS else []
    partitions = ["--partitions", ",".join(states)] if states else []
    switches = [f"--{name}" for name in ("test", "yes") if getattr(given, name)]
    if given.dry_run:
        switches.append("--dry-run")
    handlers = os.path.relpath(HANDLERS)
    return [
        "fleet",
        handlers,
        "--run",
        given.run,
        "--until-done",
        "--workers",
        str(workers),
        *table,
        *partitions,
        *switches,
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the workers, and return when all targets are done, or when they were told to stop."""
    options = argparse.ArgumentParser(prog="python -m yellowpages.run", description=__doc__.partition("\n")[0])
    options.add_argument("--test", action="store_true", help="only workers 0 and 1, with their own states")
    options.add_argument("--workers", type=int, help="how many (default: WORKER_COUNT, or 10)")
    options.add_argument("--states", help="only these, such as CA,TX")
    options.add_argument("--yes", action="store_true", help="do not ask")
    options.add_argument("--dry-run", action="store_true", help="check and show everything, and start nothing")
    options.add_argument("--run", default=RUN, help=f"the run to work on (default: {RUN})")
    given = options.parse_args(arguments)
    try:
        states = () if given.states is None else states_of(given.states)
        fetched_by = check(given.run, states)
        fleet = command(given, states)
    except (ValueError, LongshoreError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    print(
        "mode        " + ("Chromium, by Playwright" if fetched_by == "browser" else "plain HTTP, without a browser"),
        flush=True,
    )
    return longshore_command(fleet)


if __name__ == "__main__":
    sys.exit(main())
