"""Compare what a run has found with the truth that the replica serves.

python -m filings.check --year 2010 --limit 10
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

import longshore
from filings import config
from longshore import LongshoreError

KINDS = ("filing", "company", "person", "role", "relation", "event")


@dataclass(frozen=True)
class Comparison:
    """What a run has found, beside the truth."""

    found: int
    missing: list[str]
    invented: list[str]
    """Records that the truth does not have, or has with other fields."""
    repeated: int

    @property
    def perfect(self) -> bool:
        """Whether all records were found, each once and with every field right."""
        return not (self.missing or self.invented or self.repeated)


def truth(base: str, year: int | None, limit: int | None) -> list[dict[str, Any]]:
    """Return the records of a perfect reader, from the replica."""
    query = f"year={year or ''}&limit={'' if limit is None else limit}"
    url = f"{base.removesuffix('/Archives')}/truth.jsonl?{query}"
    with urllib.request.urlopen(url) as answer:  # noqa: S310 (the user's own site)
        return [json.loads(line) for line in answer]


def records(run: str) -> Iterable[dict[str, Any]]:
    """Yield the records of a run with their kind, without what the truth cannot know: places, and who found them."""
    for kind in KINDS:
        for record in longshore.items(run, kind):
            plain = {name: value for name, value in record.items() if name not in ("grounds", "found_by")}
            yield {"record": kind, **plain}


def compare(found: Iterable[dict[str, Any]], true: Iterable[dict[str, Any]]) -> Comparison:
    """Compare records field by field."""
    of_run, of_truth = (Counter(json.dumps(each, sort_keys=True) for each in rows) for rows in (found, true))
    return Comparison(
        found=of_run.total(),
        missing=sorted(each for each in of_truth if each not in of_run),
        invented=sorted(each for each in of_run if each not in of_truth),
        repeated=of_run.total() - len(of_run),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and return 0 if the run has found all of the truth and nothing else."""
    options = argparse.ArgumentParser(prog="python -m filings.check", description="Compare a run with the truth.")
    options.add_argument("--year", type=int, required=True)
    options.add_argument("--limit", type=int)
    options.add_argument("--run", help="the name of the run (filings-YEAR)")
    options.add_argument("--queue-dir", metavar="PATH", help="the folder of the queue (QUEUE_DIR, data/queue)")
    given = options.parse_args(arguments)
    try:
        config.prepare(config.queue_of(given.queue_dir))
        run = given.run or f"filings-{given.year}"
        seen = compare(records(run), truth(config.source(), given.year, given.limit))
    except (OSError, LongshoreError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    for word, rows in (("missing", seen.missing), ("invented", seen.invented)):
        for row in rows[:10]:
            print(f"{word}: {row}")
    missing, invented = len(seen.missing), len(seen.invented)
    print(f"{seen.found:,} found: {missing:,} missing, {invented:,} invented, {seen.repeated:,} repeated.")
    return 0 if seen.perfect else 1


if __name__ == "__main__":
    sys.exit(main())
