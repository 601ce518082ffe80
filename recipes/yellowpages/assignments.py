"""Print and check the assignment of the 51 states to the ten workers.

python -m yellowpages.assignments
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from longshore.cli import main as longshore

TABLE = Path(__file__).with_name("assignments.toml")
WORKERS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or all that is wrong with it. The exit code is 2 if a state is missing or assigned twice."""
    options = argparse.ArgumentParser(prog="python -m yellowpages.assignments", description=__doc__.partition("\n")[0])
    options.add_argument("--table", type=Path, default=TABLE, help="another table")
    options.add_argument("--workers", type=int, help="instead of the table: the shares of this many workers")
    given = options.parse_args(arguments)
    if given.workers is not None and given.workers != WORKERS:
        return longshore(["assign", "--workers", str(given.workers), "--partitions", "us-states"])
    table = str(given.table)
    return longshore(["assign", "--workers", str(WORKERS), "--table", table, "--partitions", "us-states"])


if __name__ == "__main__":
    sys.exit(main())
