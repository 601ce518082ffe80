"""The businesses of the replica, made up, and the same in every run; and what a perfect scrape finds of them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from yellowpages.places import Target, categories

PER_PAGE = 20
_FIRST = ("Ace", "Blue Heron", "Café Señor", "Dalton's", "El Niño", "Golden “Oak”", "J & R", "Müller", "O’Brien", "Zoë")
_LAST = ("& Sons", "Brothers", "Center", "Company", "Express", "Group – East", "of the Valley", "Pros", "Services")
_STREETS = ("Main St", "N 1st Ave", "Peña Blvd", "Old Mill Rd", "Broadway", "King’s Ct Ste 4")
_FAULTS = ("no name", "closed for good", "in another state", "no phone, website or street")


@dataclass(frozen=True)
class Business:
    """A business, with the fields that a perfect scrape finds. Missing and malformed ones are None."""

    listing_id: str
    name: str | None
    phone: str | None
    street: str | None
    city: str | None
    state: str | None
    zip_code: str | None
    website: str | None
    rating: float | None
    reviews: int | None
    categories: tuple[str, ...]
    closed: bool = False
    sponsored: bool = False
    rejected: str = ""
    """Why the filter rejects it."""


def chance(*names: object) -> random.Random:
    """Return a source of chance that depends on these names only."""
    seed = hashlib.sha256("\n".join(map(str, names)).encode()).digest()
    return random.Random(seed)  # noqa: S311 (the same in every run)


def results(target: Target) -> list[Business]:
    """Return all businesses that a search finds, in the order of the site; the advertisement comes first."""
    found = _own(target)
    every = categories()
    neighbour = every[(every.index(target.category) + 1) % len(every)]
    # A business may be in two categories. Then two searches find it.
    shared = [each for each in _own(Target(target.city, neighbour)) if not each.rejected][:2]
    found[3:3] = shared
    if len(found) > 5:
        ad = replace(_business(target, "ad"), sponsored=True, closed=False, rejected="an advertisement")
        found.insert(0, ad)
    return found


def accepted(target: Target) -> Iterator[dict[str, Any]]:
    """Yield the records that a perfect scrape has of a target."""
    for each in results(target):
        if not each.rejected:
            record = asdict(each)
            del record["rejected"]
            yield record | {
                "categories": list(each.categories),
                "searched_state": target.city.state,
                "searched_city": target.city.name,
                "searched_category": target.category,
            }


def _own(target: Target) -> list[Business]:
    dice = chance("size", target)
    ranges = ((0, 0), (1, 12), (13, 22), (23, 55))
    number = dice.randint(*dice.choices(ranges, (6, 64, 20, 10))[0])
    return [_business(target, number) for number in range(number)]


def _business(target: Target, number: object) -> Business:
    dice = chance("business", target, number)

    def maybe(value: Any, share: float) -> Any:
        return value if dice.random() < share else None

    digits = f"{dice.randint(201, 989)}555{dice.randint(100, 9999):04}"
    name = f"{dice.choice(_FIRST)} {target.category.title()} {dice.choice(_LAST)}"
    rating = maybe(dice.randint(2, 10) / 2, 0.7)
    placed = dice.random() < 0.9
    business = Business(
        listing_id=str(dice.randint(10**8, 10**9)),
        name=name,
        phone=f"+1{digits}",
        street=f"{dice.randint(1, 9999)} {dice.choice(_STREETS)}" if placed else None,
        city=target.city.name if placed else None,
        state=target.city.state if placed else None,
        zip_code=maybe(f"{dice.randint(501, 99950):05}" + dice.choice(("", "", "-1234")), 0.85) if placed else None,
        website=maybe(f"https://www.example-{digits}.com/?a=1&b=2", 0.6),
        rating=rating,
        reviews=None if rating is None else maybe(dice.randint(1, 900), 0.9),
        categories=tuple(
            dict.fromkeys((target.category.title(), *dice.choices(("Repair", "Wholesale", "Gifts"), k=1)))
        ),
    )
    if dice.random() >= 0.14:
        # Some have no phone, but a street or a website.
        return replace(business, phone=maybe(business.phone, 0.92) if placed else business.phone)
    return _rejected(business, dice.choice(_FAULTS), "MA" if target.city.state == "OR" else "OR")


def _rejected(business: Business, why: str, other_state: str) -> Business:
    changes: Mapping[str, Mapping[str, Any]] = {
        "no name": {"name": None},
        "closed for good": {"closed": True},
        "in another state": {
            "city": "Springfield",
            "state": other_state,
            "street": "1 Elm St",
            "zip_code": "97475",
        },
        "no phone, website or street": {"phone": None, "website": None, "street": None},
    }
    return replace(business, rejected=why, **changes[why])
