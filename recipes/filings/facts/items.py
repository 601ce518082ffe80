"""Rules for the items of an 8-K, with the numbers since 2004 and the ones before."""

from __future__ import annotations

import re
from collections.abc import Iterator

from filings.edgar.submission import Document
from filings.facts.builder import FactBuilder, Piece, day
from filings.facts.fact import Fact

ITEMS = {
    "1.01": "Entry into a Material Definitive Agreement",
    "1.02": "Termination of a Material Definitive Agreement",
    "1.03": "Bankruptcy or Receivership",
    "2.01": "Completion of Acquisition or Disposition of Assets",
    "2.02": "Results of Operations and Financial Condition",
    "2.03": "Creation of a Direct Financial Obligation",
    "2.05": "Costs Associated with Exit or Disposal Activities",
    "2.06": "Material Impairments",
    "3.01": "Notice of Delisting",
    "3.02": "Unregistered Sales of Equity Securities",
    "3.03": "Material Modification to Rights of Security Holders",
    "4.01": "Changes in Registrant's Certifying Accountant",
    "4.02": "Non-Reliance on Previously Issued Financial Statements",
    "5.01": "Changes in Control of Registrant",
    "5.02": "Departure of Directors or Certain Officers",
    "5.03": "Amendments to Articles of Incorporation or Bylaws",
    "5.07": "Submission of Matters to a Vote of Security Holders",
    "7.01": "Regulation FD Disclosure",
    "8.01": "Other Events",
    "9.01": "Financial Statements and Exhibits",
    "1": "Changes in Control of Registrant",
    "2": "Acquisition or Disposition of Assets",
    "3": "Bankruptcy or Receivership",
    "4": "Changes in Registrant's Certifying Accountant",
    "5": "Other Events",
    "6": "Resignations of Registrant's Directors",
    "7": "Financial Statements and Exhibits",
    "8": "Change in Fiscal Year",
    "9": "Regulation FD Disclosure",
}
"""How the title of each item begins."""
_HEADING = re.compile(r"^[ \t]*item[ \t]+(?P<item>\d\.\d\d|\d)\b[ \t]*[.:–—-]*[ \t]*", re.MULTILINE | re.IGNORECASE)


def items(builder: FactBuilder, document: Document) -> Iterator[Fact]:
    """Yield an event for each item, unless its title is another one than that of its number."""
    company = builder.company_name()
    for match in _HEADING.finditer(document.text):
        title = ITEMS.get(match["item"])
        if title is None or company is None:
            continue
        words = r"\s+".join(re.escape(word).replace("'", "['’]") for word in title.split())
        found = re.compile(words, re.IGNORECASE).match(document.text, match.end())
        if found is None:
            continue
        number = Piece(match["item"], document.start + match.start("item"), document.start + match.end("item"))
        place = Piece(title, document.start + found.start(), document.start + found.end())
        yield from builder.fact("event", item=number, title=place, company=company, day=day(builder.read.period))
