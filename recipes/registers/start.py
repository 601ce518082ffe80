"""Start a scraper as its mode says, and print JSON.

python -m registers.start India --urls-file urls.txt
python -m registers.start Russia [--resume]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from longshore import LongshoreError
from registers.orchestrator import ScraperOrchestrator
from registers.scrapers import get_execution_mode, scrapers

_CODES = {"queued": 0, "dry_run": 0, "completed": 0, "interrupted": 130}


def main(arguments: Sequence[str] | None = None) -> int:
    """Start it, and return 0 if it is queued, or has run to its end and nothing failed."""
    options = argparse.ArgumentParser(prog="python -m registers.start", description=__doc__.partition("\n")[0])
    options.add_argument("scraper", nargs="?", help="its name; left out, all are listed with their modes")
    options.add_argument("--urls-file", metavar="FILE", help="a URL in each line; it is read line by line")
    options.add_argument("--resume", action="store_true", help="go on with the run that was started last")
    options.add_argument("--run-id", metavar="ID", help="the name of the run (default: made of the time)")
    options.add_argument("--dry-run", action="store_true", help="read the whole file and count, but enqueue nothing")
    given = options.parse_args(arguments)
    if given.scraper is None:
        for each in scrapers:
            print(f"{each.name:14}{get_execution_mode(each.name)}")
        return 0
    orchestrator = ScraperOrchestrator()
    try:
        if given.dry_run:
            if given.urls_file is None:
                options.error("--dry-run needs --urls-file FILE")
            done = orchestrator.dry_run(given.scraper, given.urls_file)
        else:
            done = orchestrator.start_scraper(given.scraper, given.urls_file, run_id=given.run_id, resume=given.resume)
    except LongshoreError as error:
        print(f"start: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(done, indent=2))
    return _CODES.get(done["status"], 1)


if __name__ == "__main__":
    sys.exit(main())
