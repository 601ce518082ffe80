"""The companies and people of the replica, made up, and the same in every run."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from datetime import date

_FIRST = (
    "Adela", "Bertram", "Cosima", "Darius", "Edith", "Florian", "Greta", "Hugo", "Ines", "Jonas",
    "Kira", "Lennart", "Mirela", "Nils", "Odette", "Pascal", "Quentin", "Renée", "Stellan", "Tamsin",
    "Ulric", "Verena", "Wendell", "Yara", "Zoë"
)  # fmt: skip
_LAST = (
    "Abernathy", "Brightwater", "Castellan", "Drummond", "Eastlake", "Fairweather", "Grünwald",
    "Hollister", "Ivarsson", "Juniper", "Kestrel", "Lindqvist", "Marchbanks", "Norrington", "O’Dowd",
    "Pemberton", "Quillfeather", "Ravenscar", "Silverstone", "Thornquist", "Underhill", "Vandermeer",
    "Wexcombe"
)  # fmt: skip


@dataclass(frozen=True)
class Company:
    """A company that files."""

    cik: str
    name: str
    """As headers have it."""
    full_name: str
    """As the text has it."""
    sic: str
    industry: str
    state: str


def _company(number: int, name: str, full_name: str, sic: str, industry: str, state: str) -> Company:
    return Company(f"{9_000_000 + 7 * number:010}", name, full_name, sic, industry, state)


COMPANIES = (
    _company(
        1,
        "HARBORLIGHT MARITIME CORP",
        "Harborlight Maritime Corporation",
        "4412",
        "DEEP SEA FOREIGN TRANSPORTATION",
        "DE",
    ),
    _company(2, "TIDEMARK INSTRUMENTS INC", "Tidemark Instruments, Inc.", "3823", "INDUSTRIAL INSTRUMENTS", "WA"),
    _company(3, "QUARRYSTONE & SONS CO", "Quarrystone & Sons Company", "1400", "MINING OF NONMETALLIC MINERALS", "PA"),
    _company(4, "BLUEFERN BIOSCIENCES INC", "Bluefern Biosciences, Inc.", "2836", "BIOLOGICAL PRODUCTS", "MA"),
    _company(5, "CANDLEWICK STORES CORP", "Candlewick Stores Corporation", "5331", "VARIETY STORES", "OH"),
    _company(6, "OAKHOLLOW BANCSHARES INC", "Oakhollow Bancshares, Inc.", "6022", "STATE COMMERCIAL BANKS", "IA"),
    _company(7, "PELLUCID GLASSWORKS LTD", "Pellucid Glassworks Limited", "3211", "FLAT GLASS", "NY"),
    _company(8, "SKYLARK AVIONICS INC", "Skylark Avionics, Inc.", "3812", "SEARCH AND NAVIGATION INSTRUMENTS", "KS"),
    _company(9, "MERIDIAN TEA CO", "Meridian Tea Company", "2090", "FOOD AND KINDRED PRODUCTS", "OR"),
    _company(10, "GREYGATE LOGISTICS CORP", "Greygate Logistics Corporation", "4213", "TRUCKING", "TN"),
    _company(11, "VELLUM & PRESS INC", "Vellum & Press, Inc.", "2731", "BOOK PUBLISHING", "IL"),
    _company(12, "NETTLEFIELD ENERGY CORP", "Nettlefield Energy Corporation", "1311", "CRUDE PETROLEUM", "TX"),
)
AUDITORS = ("Larkmoor & Finch LLP", "Addlestone Pratt LLP", "Wickham Vole LLP")
OTHERS = (
    "Copperdale Holdings LLC",
    "Saltmarsh Ventures, Inc.",
    "Brackenridge Tool Corporation",
    "Umberfield Partners L.P.",
    "Rosewater Freight GmbH",
    "Lattice Grove Limited",
)
FUNDS = ("Stonepine Capital LLC", "Halcyon Ridge Partners L.P.", "Driftwood Advisors, Inc.")
PLACES = ("Delaware", "Nevada", "New Jersey", "Ontario", "Ireland", "Netherlands", "Texas")
TITLES = (
    "Chief Executive Officer",
    "Chief Financial Officer",
    "Chief Operating Officer",
    "General Counsel",
    "Treasurer",
    "Controller",
    "Executive Vice President",
)


def chance(*names: object) -> random.Random:
    """Return a source of chance that depends on these names only."""
    seed = hashlib.sha256("\n".join(map(str, names)).encode()).digest()
    return random.Random(seed)  # noqa: S311 (the same in every run)


def person(*names: object) -> str:
    """Return the name of a person, as text has it."""
    dice = chance("person", *names)
    middle = dice.choice(("", "", f" {dice.choice('ABCDEFHJKLMPRSTW')}."))
    return f"{dice.choice(_FIRST)}{middle} {dice.choice(_LAST)}"


def owner_name(name: str) -> str:
    """Return the name of a person as the headers of forms 3, 4 and 5 have it: the last name first."""
    first, *middle, last = name.split()
    return " ".join((last, first, *(each.rstrip(".") for each in middle))).upper()


def written(day: date) -> str:
    """Return a day as text has it."""
    return f"{day:%B} {day.day}, {day.year}"


def compact(day: date) -> str:
    """Return a day as headers have it."""
    return f"{day:%Y%m%d}"
