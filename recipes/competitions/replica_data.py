"""What the replica knows: competitions, seasons and clubs. Made up, and the same in every run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

_PLACES = (
    ("BR", "Brazil", ("São João", "Curitiba", "Belém", "Florianópolis", "Goiânia", "Maceió")),
    ("DE", "Germany", ("Köln-Süd", "Münster", "Würzburg", "Lübeck", "Gießen", "Nürnberg-Ost")),
    ("ES", "Spain", ("Cádiz", "Logroño", "A Coruña", "Málaga Norte", "León", "Jaén")),
    ("PL", "Poland", ("Łódź", "Gdańsk", "Kraków", "Wrocław", "Rzeszów", "Częstochowa")),
    ("EN", "England", ("Harrow & Wealdstone", "King’s Lynn", "Bury", "Stoke", "Hove", "Deal")),
    ("GR", "Greece", ("Πάτρα", "Βόλος", "Λάρισα", "Χανιά", "Ρόδος", "Καβάλα")),
)
_FORMS = ("{} FC", "Atlético {}", "Union {} 1908", "{} “Old Boys”", "Racing {}", "SK {}", "{} United", "Real {}")
_GROUNDS = ("Stadion {}", "Estádio {}", "{} Road", "Campo {}", "The {} Ground")
_LETTERS = "ABCDEFGHKLMNPQRSTUVWXYZ"


@dataclass(frozen=True)
class Club:
    """A club in a season, as a perfect scrape finds it."""

    club_id: str
    club: str
    city: str
    founded: int | None
    stadium: str | None
    capacity: int | None


@dataclass(frozen=True)
class Season:
    """A season of a competition."""

    number: int
    name: str
    clubs: tuple[Club, ...]


@dataclass(frozen=True)
class Competition:
    """A competition with its seasons, the newest first."""

    competition_id: str
    name: str
    country: str
    seasons: tuple[Season, ...]


@cache
def competitions(number: int) -> tuple[Competition, ...]:
    """Return this many competitions."""
    return tuple(_competition(each) for each in range(number))


def truth(number: int) -> dict[str, object]:
    """Return what a perfect scrape of this many competitions finds, by the id of the competition."""
    return {
        each.competition_id: {
            "name": each.name,
            "country": each.country,
            "seasons_processed": len(each.seasons),
            "club_data": [{"season": season.name, **vars(club)} for season in each.seasons for club in season.clubs],
        }
        for each in competitions(number)
    }


def _competition(number: int) -> Competition:
    chance = random.Random(number)  # noqa: S311 (the same in every run)
    code, country, cities = _PLACES[number % len(_PLACES)]
    division = number // len(_PLACES) + 1
    pool = [_club(chance, f"{code.lower()}-{number}-{each}", cities) for each in range(24)]
    seasons = []
    for season in range(chance.choice((1, 2, 2, 3))):
        year = 2024 - season
        clubs = tuple(chance.sample(pool, chance.choice((1, 8, 11, 16, 18))))
        seasons.append(Season(year, f"{year}/{(year + 1) % 100:02d}", clubs))
    letters = chance.choice(_LETTERS) + chance.choice(_LETTERS)
    return Competition(f"{code}{letters}{division}", f"{country} – División {division}", country, tuple(seasons))


def _club(chance: random.Random, club_id: str, cities: tuple[str, ...]) -> Club:
    city = chance.choice(cities)
    return Club(
        club_id=club_id,
        club=chance.choice(_FORMS).format(city) + (f" {club_id.rpartition('-')[2]}"),
        city=city,
        founded=chance.choice((None, chance.randrange(1863, 2016), chance.randrange(1863, 2016))),
        stadium=chance.choice((None, chance.choice(_GROUNDS).format(city), chance.choice(_GROUNDS).format(city))),
        capacity=chance.choice((None, chance.randrange(300, 81_000), 100 * chance.randrange(3, 810))),
    )
