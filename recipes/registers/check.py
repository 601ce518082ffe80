"""Compare what a run has found with the truth that the replica serves.

python -m registers.check India --run-id ID
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import longshore
from longshore import LongshoreError
from registers.config import replica_truth
from registers.records import KIND
from registers.scrapers import find


@dataclass(frozen=True)
class Comparison:
    """What a run has found, beside the truth."""

    found: int
    missing: int
    invented: int
    """Records that the truth does not have, or has with other fields."""
    repeated: int

    @property
    def perfect(self) -> bool:
        """Whether all records were found, each once and with every field right."""
        return not (self.missing or self.invented or self.repeated)


def compare(found: Iterable[object], true: Iterable[object]) -> Comparison:
    """Compare records field by field."""
    of_run, of_truth = (Counter(json.dumps(each, sort_keys=True) for each in records) for records in (found, true))
    return Comparison(
        found=of_run.total(),
        missing=(of_truth - of_run).total(),
        invented=sum(1 for each in of_run if each not in of_truth),
        repeated=sum((of_run - of_truth)[each] for each in of_run if each in of_truth),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and return 0 if the run has found all of the truth and nothing else."""
    options = argparse.ArgumentParser(prog="python -m registers.check", description=__doc__.partition("\n")[0])
    options.add_argument("scraper", help="its name")
    options.add_argument("--run-id", required=True, metavar="ID", help="the run")
    given = options.parse_args(arguments)
    try:
        seen = compare(longshore.items(given.run_id, KIND), replica_truth(find(given.scraper).name))
    except (LongshoreError, OSError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    print(f"{seen.found:,} found: {seen.missing:,} missing, {seen.invented:,} invented, {seen.repeated:,} repeated.")
    return 0 if seen.perfect else 1


if __name__ == "__main__":
    sys.exit(main())
