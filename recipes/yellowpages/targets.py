"""Make the targets: every category in every city of the states. Making them again changes nothing.

python -m yellowpages.targets --states all
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

import longshore
from longshore import LongshoreError, new_job
from longshore.fleet.partitions.us_states import US_STATES
from longshore.job import NewJob
from yellowpages.config import site
from yellowpages.places import Choice

RUN = "listings"


def states_of(text: str) -> tuple[str, ...]:
    """Return the states that an option names: `all`, or a list such as `CA,TX`. Raise `ValueError` for others."""
    if text == "all":
        return tuple(US_STATES)
    names = [each.strip().upper() for each in text.split(",")]
    if unknown := [each for each in names if each not in US_STATES]:
        raise ValueError(f"There is no state {', '.join(unknown)}. Write codes such as CA,TX, or all.")
    return tuple(dict.fromkeys(names))


def jobs(choice: Choice, base: str) -> Iterator[NewJob]:
    """Yield a job for each target. The largest cities of a state come first."""
    for target in choice.targets():
        city = target.city
        place = f"{city.name}, {city.state}"
        query = urlencode({"search_terms": target.category, "geo_location_terms": place})
        payload = {
            "url": f"{base}/search?{query}",
            "state": city.state,
            "city": city.name,
            "category": target.category,
            "population": city.population,
        }
        # Lower numbers are claimed first: one step for each factor of ten.
        yield new_job("target", payload, partition=city.state, priority=-len(str(city.population)), identity=("url",))


def add_choice(options: argparse.ArgumentParser) -> None:
    """Add the options that choose targets, and the run that has them."""
    options.add_argument("--states", required=True, help="all, or codes such as CA,TX")
    options.add_argument("--cities", type=int, help="only the largest cities of each state, this many")
    options.add_argument("--categories", type=int, help="only the first categories, this many")
    options.add_argument("--run", default=RUN, help=f"the name of the run (default: {RUN})")


def choice_of(given: argparse.Namespace) -> Choice:
    """Return the targets that the options choose. Raise `ValueError` for an unknown state."""
    return Choice(states_of(given.states), given.cities, given.categories)


def main(arguments: Sequence[str] | None = None) -> int:
    """Put the targets into the queue."""
    options = argparse.ArgumentParser(prog="python -m yellowpages.targets", description=__doc__.partition("\n")[0])
    add_choice(options)
    given = options.parse_args(arguments)
    try:
        choice, base = choice_of(given), site()
        done = longshore.submit("target", lambda: jobs(choice, base), run=given.run)
    except (ValueError, LongshoreError) as error:
        print(f"targets: {error}", file=sys.stderr)
        return 2
    print(
        f"{done.submitted:,} targets added to run {done.run_id} ({len(choice.states)} states, {base}); "
        f"{done.duplicates:,} were there already."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
