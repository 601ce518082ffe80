"""Be a worker of a run, until the run is done. Start as many as you like, on any machine that reaches the queue.

python -m registers.worker --scraper India --run-id ID --batch-size 50
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from longshore import LongshoreError
from longshore.cli import main as longshore_command
from longshore.runs.scrapers.start import settings_for, worker_variables
from longshore.settings import TABLE
from registers.scrapers import find


def main(arguments: Sequence[str] | None = None) -> int:
    """Work, and return the exit code of `longshore work`."""
    options = argparse.ArgumentParser(prog="python -m registers.worker", description=__doc__.partition("\n")[0])
    options.add_argument("--scraper", required=True, help="its name")
    options.add_argument("--run-id", required=True, metavar="ID", help="the run, as the start printed it")
    options.add_argument("--batch-size", default="10", metavar="N", help="how many URLs it claims at once (10)")
    options.add_argument("--concurrency", metavar="N", help="how many it works on at once")
    options.add_argument(
        "--autoscale", metavar="MIN:MAX", help="be a fleet that follows the queue: one worker for each --per URLs"
    )
    options.add_argument("--per", default="1000", metavar="N", help="pending URLs for one worker of --autoscale (1000)")
    given = options.parse_args(arguments)
    try:
        scraper = find(given.scraper)
        # The workers of a fleet take their settings from the environment, too.
        os.environ |= worker_variables(scraper, settings_for(scraper, {}))
        os.environ[TABLE["batch_size"].variable] = given.batch_size
    except LongshoreError as error:
        print(f"worker: {error}", file=sys.stderr)
        return error.exit_code
    several = [] if given.concurrency is None else ["--concurrency", given.concurrency]
    common = [scraper.handler, "--run", given.run_id, "--until-done", *several]
    if given.autoscale is None:
        return longshore_command(["work", *common])
    return longshore_command(["fleet", *common, "--autoscale", given.autoscale, "--per", given.per, "--yes"])


if __name__ == "__main__":
    sys.exit(main())
