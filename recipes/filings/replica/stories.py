"""The text of each filing, and the facts that a perfect reader finds in it. The facts never come from a parser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from random import Random
from typing import Any

from filings.replica.world import (
    AUDITORS,
    COMPANIES,
    FUNDS,
    OTHERS,
    PLACES,
    TITLES,
    Company,
    chance,
    owner_name,
    person,
    written,
)

Facts = dict[str, Any]
_ITEMS = {
    True: {
        "officers": ("5.02", "Departure of Directors or Certain Officers"),
        "auditor": ("4.01", "Changes in Registrant's Certifying Accountant"),
        "purchase": ("2.01", "Completion of Acquisition or Disposition of Assets"),
        "agreement": ("1.01", "Entry into a Material Definitive Agreement"),
    },
    False: {
        "officers": ("5", "Other Events"),
        "auditor": ("4", "Changes in Registrant's Certifying Accountant"),
        "purchase": ("2", "Acquisition or Disposition of Assets"),
        "agreement": ("5", "Other Events"),
    },
}
_DECOYS = (
    "The Board of Directors has not yet appointed a successor, and a committee will review several candidates.",
    "The Company may enter into further agreements, and there is no assurance that any acquisition will be completed.",
    "Ms. Kestrel and Mr. Juniper attended the meeting. No director resigned because of a disagreement.",
    "The form of the release is attached as Exhibit 99.1 and shall not be deemed to be filed.",
)


@dataclass
class Paper:
    """A document: blocks of text, `(kind, …)`."""

    type: str
    blocks: list[tuple[Any, ...]] = field(default_factory=list)
    kind: str = "prose"
    """prose, xml or picture."""


@dataclass
class Filing:
    """A filing of the replica: its text, its facts and its faults."""

    number: int
    form: str
    company: Company
    filed: date
    period: date
    papers: list[Paper] = field(default_factory=list)
    facts: list[tuple[str, Facts]] = field(default_factory=list)
    owners: list[tuple[str, str, str]] = field(default_factory=list)
    """Part, name and CIK of the other parties in the header."""
    fault: str = ""

    @property
    def accession(self) -> str:
        """The number of the filing."""
        return f"{self.company.cik}-{self.filed:%y}-{self.number:06}"

    @property
    def path(self) -> str:
        """The path that the index has."""
        return f"edgar/data/{int(self.company.cik)}/{self.accession}.txt"

    def add(self, kind: str, /, **values: Any) -> None:
        """Add a fact, unless it is there."""
        if (kind, values) not in self.facts:
            self.facts.append((kind, values))

    def add_company(self, name: str, part: str, **more: Any) -> None:
        """Add a company that the text names."""
        self.add("company", **{"name": name, "part": part, "cik": None, "sic": None, "state": None} | more)

    def add_role(self, name: str, title: str, action: str, **days: date | None) -> None:
        """Add a person and a role."""
        self.add("person", name=name, cik=None)
        none: dict[str, Any] = {"valid_from": None, "valid_to": None, "as_of": None}
        found = {key: _iso(day) for key, day in days.items()}
        self.add("role", person=name, company=self.company.name, title=title, action=action, **none | found)

    def add_relation(self, kind: str, subject: str, target: str, **more: Any) -> None:
        """Add a relation."""
        none = dict.fromkeys(("detail", "shares", "percent", "price", "valid_from", "valid_to"))
        found = {key: _iso(value) if isinstance(value, date) else value for key, value in more.items()}
        self.add("relation", kind=kind, subject=subject, object=target, **none | found)


@cache
def filings() -> tuple[Filing, ...]:
    """Return all filings of the replica, in the order of the index."""
    made = [_of_year(1998, number) for number in range(22)] + [_of_year(2010, number) for number in range(40)]
    return tuple(
        sorted(made, key=lambda each: (each.filed.year, (each.filed.month - 1) // 3, each.company.cik, each.number))
    )


def truth(filing: Filing) -> list[tuple[str, Facts]]:
    """Return the records of a perfect reader, by kind."""
    from filings.replica.layouts import problems_of

    headless = filing.fault in ("no-header", "company-missing")
    company = filing.company
    period = None if filing.fault in ("no-header", "date-malformed") else filing.period.isoformat()
    own = {
        "accession": filing.accession,
        "form": filing.form,
        "filed": filing.filed.isoformat(),
        "period": period,
        "company": None if headless else company.name,
        "cik": None if filing.fault == "no-header" else company.cik,
        "documents": len(filing.papers),
        "problems": problems_of(filing),
    }
    facts = [] if headless else filing.facts
    if filing.fault == "date-malformed":
        # Only the header has the day of an item.
        facts = [(kind, values | ({"day": None} if kind == "event" else {})) for kind, values in facts]
    return [("filing", own), *((kind, {**values, "source": filing.accession}) for kind, values in facts)]


def _of_year(year: int, number: int) -> Filing:
    dice = chance("filing", year, number)
    old = ("8-K", "10-K", "SC 13D", "8-K", "10-Q", "8-K", "SC 13G", "8-K")
    new = ("8-K", "4", "10-K", "8-K", "3", "SC 13G", "10-Q", "4", "8-K", "5", "SC 13D", "8-K", "4", "8-K/A")
    forms = old if year < 2000 else new
    form = forms[number % len(forms)]
    company = COMPANIES[(number * 5 + number // 12) % len(COMPANIES)]
    filed = date(year, 1, 5) + timedelta(days=dice.randrange(350))
    filing = Filing(number + 1, form, company, filed, filed - timedelta(days=dice.randint(1, 4)))
    _STORIES[form.removesuffix("/A")](filing, dice)
    filing.fault = _FAULTS.get((year, number), "")
    if filing.fault == "picture":
        filing.papers.append(Paper("GRAPHIC", kind="picture"))
    if filing.fault in ("document-cut", "end-missing"):
        filing.papers.append(Paper("EX-99.1", [("p", _DECOYS[3])] * 4))
    if filing.form in ("3", "4", "5"):
        return filing
    part = "subject" if form.startswith("SC") else "filer"
    about = {"name": company.name, "part": part, "cik": company.cik, "sic": company.sic, "state": company.state}
    filing.facts.insert(0, ("company", about))
    return filing


_FAULTS = {
    (1998, 3): "bad-bytes",
    (1998, 4): "document-count",
    (1998, 7): "document-cut",
    (1998, 12): "type-missing",
    (1998, 16): "no-header",
    (2010, 0): "date-malformed",
    (2010, 3): "picture",
    (2010, 7): "xml-malformed",
    (2010, 8): "type-missing",
    (2010, 11): "end-missing",
    (2010, 12): "number-malformed",
    (2010, 22): "company-missing",
    (2010, 25): "document-count",
    (2010, 27): "document-cut",
}


def _8k(filing: Filing, dice: Random) -> None:
    paper = Paper(filing.form, [("cover", "CURRENT REPORT", written(filing.period))])
    subjects = dice.sample(("officers", "auditor", "purchase", "agreement"), dice.choice((1, 1, 2)))
    items = _ITEMS[filing.filed.year >= 2004]
    if filing.filed.year < 2004 and {"officers", "agreement"} <= set(subjects):
        subjects.remove("agreement")
    for subject in sorted(subjects, key=lambda each: items[each][0]):
        number, title = items[subject]
        paper.blocks.append(("item", number, title))
        filing.add("event", item=number, title=title, company=filing.company.name, day=filing.period.isoformat())
        _TEXTS[subject](filing, paper, dice)
        paper.blocks.append(("p", dice.choice(_DECOYS)))
    _sign(filing, paper, dice)
    filing.papers.append(paper)


def _officers(filing: Filing, paper: Paper, dice: Random) -> None:
    title = dice.choice(TITLES)
    old, new = person(filing.company.cik, title), person(filing.accession, "new")
    leaving, coming = filing.period, filing.period + timedelta(days=dice.randint(5, 40))
    his = dice.choice(("his", "her"))
    sentence = dice.choice(
        (
            f"On {written(leaving)}, {old} notified the Company of {his} resignation as {title}.",
            f"On {written(leaving)}, {old} resigned as {title} of the Company.",
            f"{old} retired as the Company’s {title}, effective {written(leaving)}.",
            f"The employment of {old} as {title} was terminated effective {written(leaving)}.",
        )
    )
    filing.add_role(old, title, "ends", valid_to=leaving)
    both = dice.random() < 0.3 and title != "Chief Operating Officer"
    titles = f"{title} and Chief Operating Officer" if both else title
    follow = dice.choice(
        (
            f"On {written(leaving)}, the Board of Directors appointed {new} as {titles}, effective {written(coming)}.",
            f"{new} was appointed {{as}} {titles} of the Company, effective as of {written(coming)}.".replace(
                "{as} ", "as "
            ),
            f"{new} has been elected to serve as {titles} effective {written(coming)}.",
        )
    )
    for each in titles.split(" and "):
        filing.add_role(new, each, "begins", valid_from=coming)
    paper.blocks += [
        ("p", sentence),
        ("p", f"{follow} {new.split()[-1]} has many years of experience in the industry."),
    ]


def _auditor(filing: Filing, paper: Paper, dice: Random) -> None:
    old, new = dice.sample(AUDITORS, 2)
    when, later = filing.period, filing.period + timedelta(days=dice.randint(1, 9))
    firm = "independent registered public accounting firm" if filing.filed.year > 2003 else "independent accountants"
    paper.blocks += [
        (
            "p",
            f"On {written(when)}, the Company dismissed {old} as its {firm}. Its reports had no adverse opinion.",
        ),
        ("p", f"The Company engaged {new} as the Company’s {firm}, effective {written(later)}."),
    ]
    for name, days in ((old, {"valid_to": when}), (new, {"valid_from": later})):
        filing.add_company(name, "auditor")
        filing.add_relation("auditor", name, filing.company.name, **days)


def _purchase(filing: Filing, paper: Paper, dice: Random) -> None:
    other = dice.choice(OTHERS)
    amount, price = dice.choice((("$12.5 million", 12.5e6), ("$3,250,000", 3.25e6), ("$1.2 billion", 1.2e9)))
    whole = dice.choice(("", "all of the outstanding shares of "))
    paper.blocks.append(
        (
            "p",
            f"On {written(filing.period)}, the Company completed its acquisition of {whole}{other} for {amount}.",
        )
    )
    filing.add_company(other, "counterparty")
    filing.add_relation("acquired", filing.company.name, other, price=price, valid_from=filing.period)


def _agreement(filing: Filing, paper: Paper, dice: Random) -> None:
    other = dice.choice(OTHERS)
    detail = dice.choice(
        ("Credit Agreement", "Agreement and Plan of Merger", "License and Supply Agreement", "Lease Agreement")
    )
    article = "an" if detail.startswith("A") else "a"
    when = filing.period - timedelta(days=dice.randint(0, 1))
    paper.blocks.append(
        (
            "p",
            f"The Company entered into {article} {detail} with {other}, dated as of {written(when)}. It is customary.",
        )
    )
    filing.add_company(other, "counterparty")
    filing.add_relation("agreement", filing.company.name, other, detail=detail, valid_from=when)


def _10k(filing: Filing, dice: Random) -> None:
    paper = Paper(filing.form, [("cover", "ANNUAL REPORT", written(filing.period))])
    paper.blocks += [
        ("heading", "PART I"),
        ("p", f"{filing.company.full_name} and its subsidiaries operate in one segment."),
    ]
    paper.blocks += [("p", each) for each in dice.sample(_DECOYS, 3)]
    rows = [("Revenue", f"{dice.randint(1000, 9999):,}"), ("Net income", f"({dice.randint(10, 99)})")]
    paper.blocks.append(("rows", rows))
    _sign(filing, paper, dice, signers=2)
    listed = dice.sample([each for each in OTHERS if "&" not in each], dice.randint(2, 4))
    exhibit = Paper("EX-21.1", [("heading", "SUBSIDIARIES OF THE REGISTRANT")])
    places = [(each, dice.choice(PLACES)) for each in listed]
    exhibit.blocks.append(("rows", [("Name of subsidiary", "Place of incorporation"), *places]))
    filing.papers += [paper, exhibit]
    for name, place in places:
        filing.add_company(name, "subsidiary", state=place)
        filing.add_relation("subsidiary", name, filing.company.name)


def _10q(filing: Filing, dice: Random) -> None:
    paper = Paper(filing.form, [("cover", "QUARTERLY REPORT", written(filing.period)), ("heading", "PART I")])
    paper.blocks += [("p", each) for each in dice.sample(_DECOYS, 2)]
    _sign(filing, paper, dice)
    filing.papers.append(paper)


def _sign(filing: Filing, paper: Paper, dice: Random, signers: int = 1) -> None:
    for title in ("Chief Executive Officer", "Principal Accounting Officer")[:signers]:
        name = person(filing.company.cik, title, filing.filed.year)
        day = filing.filed if dice.random() < 0.7 else None
        paper.blocks.append(("signature", name, title, None if day is None else written(day)))
        filing.add_role(name, title, "holds", as_of=filing.filed)


def _schedule(filing: Filing, dice: Random) -> None:
    owners = dice.sample(FUNDS, dice.choice((1, 2)))
    names: list[tuple[str, str]] = [(each, dice.choice(("PN", "OO", "CO", "IA"))) for each in owners]
    if dice.random() < 0.6:
        names.append((person(filing.accession, "owner"), "IN"))
    paper = Paper(filing.form, [("cover", f"SCHEDULE {filing.form.split()[1]}", written(filing.period))])
    paper.blocks += [("p", filing.company.full_name), ("under", "Common Stock", "(Title of Class of Securities)")]
    paper.blocks.append(("under", written(filing.period), "(Date of Event which Requires Filing of this Statement)"))
    for name, kind in names:
        shares, percent = dice.randint(100_000, 9_000_000), dice.randint(51, 349) / 10
        paper.blocks.append(("owner", name, f"{shares:,}", f"{percent}", kind))
        if kind == "IN":
            filing.add("person", name=name, cik=None)
        else:
            filing.add_company(name, "owner")
        more = {"detail": "Common Stock", "shares": float(shares), "percent": percent, "valid_from": filing.period}
        filing.add_relation("owns", name, filing.company.name, **more)
    paper.blocks.append(
        ("p", "The filing of this statement is not an admission that any person is the owner of these shares.")
    )
    filing.owners.append(("FILED BY", names[0][0].upper(), f"{dice.randint(8_000_000, 8_900_000):010}"))
    filing.papers.append(paper)
    part, owner, cik = filing.owners[0]
    del part
    # The header has the name in capitals; a company has a state there, which a person has not.
    filing.add_company(owner, "filed by", cik=cik, state="DE")


def _ownership(filing: Filing, dice: Random) -> None:
    name = owner_name(person(filing.accession, "insider"))
    cik = f"{dice.randint(7_000_000, 7_900_000):010}"
    director, title = dice.random() < 0.5, dice.choice((*TITLES, None))
    if not director and title is None:
        director = True
    filing.owners.append(("REPORTING-OWNER", name, cik))
    lines: list[tuple[Any, ...]] = [("owner", name, cik, director, title)]
    company = filing.company
    issuer = {"name": company.name, "part": "issuer", "cik": company.cik}
    filing.add("company", **issuer, sic=company.sic, state=company.state)
    filing.add("person", name=name, cik=cik)
    for role in (["Director"] if director else []) + ([title] if title else []):
        days = {"valid_from": None, "valid_to": None, "as_of": filing.period.isoformat()}
        filing.add("role", person=name, company=company.name, title=role, action="holds", **days)
    held = float(dice.randint(1_000, 90_000))
    if filing.form == "3":
        lines.append(("holding", "Common Stock", held))
        filing.add_relation("owns", name, company.name, detail="Common Stock", shares=held, valid_from=filing.period)
    for number in range(0 if filing.form == "3" else dice.randint(1, 3)):
        shares, code = float(dice.randint(100, 900)), dice.choice("AD")
        held += shares if code == "A" else -shares
        price = None if dice.random() < 0.25 else dice.randint(500, 9900) / 100
        when = filing.period - timedelta(days=number)
        lines.append(("transaction", "Common Stock", when, shares, price, code, held))
        kind = "acquired shares" if code == "A" else "disposed of shares"
        bounds = {"valid_from": when, "valid_to": when}
        filing.add_relation(kind, name, company.name, detail="Common Stock", shares=shares, price=price, **bounds)
        filing.add_relation("owns", name, company.name, detail="Common Stock", shares=held, valid_from=when)
    filing.papers.append(Paper(filing.form, lines, kind="xml"))


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


_TEXTS: dict[str, Callable[[Filing, Paper, Random], None]] = {
    "officers": _officers,
    "auditor": _auditor,
    "purchase": _purchase,
    "agreement": _agreement,
}
_STORIES: dict[str, Callable[[Filing, Random], None]] = {
    "8-K": _8k,
    "10-K": _10k,
    "10-Q": _10q,
    "SC 13D": _schedule,
    "SC 13G": _schedule,
    "3": _ownership,
    "4": _ownership,
    "5": _ownership,
}
