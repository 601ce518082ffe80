"""Compare what a run has found with the truth that the replica serves.

python -m yellowpages.check --states DE,RI --cities 2 --categories 5
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import longshore
from longshore import LongshoreError
from yellowpages.config import site
from yellowpages.places import Choice
from yellowpages.targets import add_choice, choice_of


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


def truth(base: str, choice: Choice) -> Iterable[dict[str, Any]]:
    """Yield the records of a perfect scrape, from the replica."""
    limits = {"cities": choice.cities, "categories": choice.categories}
    query = {"states": ",".join(choice.states)} | {name: value for name, value in limits.items() if value is not None}
    with urllib.request.urlopen(f"{base}/truth.jsonl?{urlencode(query)}") as lines:  # noqa: S310 (the user's own site)
        yield from map(json.loads, lines)


def compare(found: Iterable[Any], true: Iterable[Any]) -> Comparison:
    """Compare records field by field."""
    of_run, of_truth = (Counter(json.dumps(each, sort_keys=True) for each in records) for records in (found, true))
    return Comparison(
        found=of_run.total(),
        missing=sum(1 for each in of_truth if each not in of_run),
        invented=sum(1 for each in of_run if each not in of_truth),
        repeated=of_run.total() - len(of_run),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and return 0 if the run has found all of the truth and nothing else."""
    options = argparse.ArgumentParser(prog="python -m yellowpages.check", description=__doc__.partition("\n")[0])
    add_choice(options)
    given = options.parse_args(arguments)
    try:
        choice = choice_of(given)
        seen = compare(longshore.items(given.run, "listing"), truth(site(), choice))
    except (ValueError, OSError, LongshoreError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    print(f"{seen.found:,} found: {seen.missing:,} missing, {seen.invented:,} invented, {seen.repeated:,} repeated.")
    return 0 if seen.perfect else 1


if __name__ == "__main__":
    sys.exit(main())
