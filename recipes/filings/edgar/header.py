"""The header of a submission: `NAME: value` lines, in sections for each company."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date

_LINE = re.compile(r"^[ \t]*(?P<name>[A-Z][A-Z0-9 /()'-]{1,60}):[ \t]*(?P<value>[^\n]*?)[ \t]*$", re.MULTILINE)
PARTS = {
    "FILER": "filer",
    "ISSUER": "issuer",
    "SUBJECT COMPANY": "subject",
    "FILED BY": "filed by",
    "REPORTING-OWNER": "owner",
}


@dataclass(frozen=True)
class Quote:
    """A piece of the text of the filing."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


@dataclass
class Party:
    """A company, or a person who owns shares, that the header names."""

    part: str
    """filer, issuer, subject, filed by, owner."""
    lines: dict[str, Quote] = field(default_factory=dict)

    @property
    def name(self) -> Quote | None:
        """The name."""
        return self.lines.get("COMPANY CONFORMED NAME")

    @property
    def cik(self) -> Quote | None:
        """The number that EDGAR gave to it."""
        found = self.lines.get("CENTRAL INDEX KEY")
        return found if found is not None and re.fullmatch(r"\d{1,10}", found.text) else None

    @property
    def sic(self) -> Quote | None:
        """The number of its industry."""
        found = self.lines.get("STANDARD INDUSTRIAL CLASSIFICATION")
        number = None if found is None else re.search(r"\[?(\d{4})\]?\s*$", found.text)
        return None if found is None or number is None else Quote(number[1], found.start + number.start(1))

    @property
    def state(self) -> Quote | None:
        """The state of its incorporation."""
        found = self.lines.get("STATE OF INCORPORATION")
        return found if found is not None and re.fullmatch(r"[A-Z0-9]{2}", found.text) else None


@dataclass
class Header:
    """The header. A line that is missing is not in `lines`."""

    lines: dict[str, Quote] = field(default_factory=dict)
    parties: list[Party] = field(default_factory=list)


def read_header(text: str, at: int) -> Header:
    """Read a header whose text begins at `at` in the text of the filing."""
    header = Header()
    party: Party | None = None
    inside_former = False
    for name, value in _lines(text, at):
        if name in PARTS and not value.text:
            party, inside_former = Party(PARTS[name]), False
            header.parties.append(party)
        elif name in ("FORMER COMPANY", "FORMER NAME"):
            inside_former = True
        elif party is None:
            header.lines.setdefault(name, value)
        elif value.text and not inside_former:
            party.lines.setdefault(name, value)
    return header


def _lines(text: str, at: int) -> Iterator[tuple[str, Quote]]:
    for line in _LINE.finditer(text):
        yield line["name"].strip(), Quote(line["value"], at + line.start("value"))


def day_of(text: str) -> date | None:
    """Return the day that eight digits name; None if they name none."""
    found = re.fullmatch(r"(\d{4})(\d\d)(\d\d)(?:\d{6})?", text.strip())
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return None
