"""The cities of the 51 states, the categories of businesses, and the targets that are made of them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class City:
    """A city, with its number of inhabitants."""

    state: str
    name: str
    population: int


@dataclass(frozen=True)
class Target:
    """One search: the businesses of a category in a city."""

    city: City
    category: str


@cache
def cities() -> tuple[City, ...]:
    """Return all cities, by state; in a state the largest comes first."""
    with (_FOLDER / "cities.csv").open(encoding="utf-8", newline="") as file:
        return tuple(City(row["state"], row["city"], int(row["population"])) for row in csv.DictReader(file))


@cache
def categories() -> tuple[str, ...]:
    """Return the names of all categories."""
    return tuple((_FOLDER / "categories.txt").read_text(encoding="utf-8").split("\n")[:-1])


@dataclass(frozen=True)
class Choice:
    """Which targets are meant: all of some states, or those of their largest cities and of the first categories."""

    states: Sequence[str]
    cities: int | None = None
    """How many cities of each state, the largest first; None means all."""
    categories: int | None = None
    """How many categories; None means all."""

    def targets(self) -> Iterator[Target]:
        """Yield the targets, state by state."""
        chosen = categories()[: self.categories]
        for state in self.states:
            for city in [city for city in cities() if city.state == state][: self.cities]:
                for category in chosen:
                    yield Target(city, category)
