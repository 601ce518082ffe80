"""Rules for forms 3, 4 and 5: who owns, buys and sells shares of the company, and the role of that person in it."""

from __future__ import annotations

from collections.abc import Iterator

from filings.edgar.submission import Document
from filings.edgar.xml_tree import Element
from filings.facts.builder import FactBuilder, Piece
from filings.facts.fact import Fact
from filings.facts.sentences import relation
from filings.facts.spelling import date_in, number_in


def ownership(builder: FactBuilder, document: Document) -> Iterator[Fact]:
    """Yield the facts of an ownership document."""
    if document.tree is None:
        return
    form = document.tree.find("ownershipDocument")
    issuer = None if form is None else _text(form, "issuer/issuerName")
    if form is None or issuer is None:
        return
    cik = _text(form, "issuer/issuerCik")
    yield from builder.fact("company", {"part": "issuer"}, name=issuer, cik=cik, sic=None, state=None)
    when = _day(form, "periodOfReport")
    owners = [each for each in form.children if each.name == "reportingOwner"]
    for owner in owners:
        yield from _owner(builder, owner, issuer, when)
    names = [name for each in owners if (name := _text(each, "reportingOwnerId/rptOwnerName")) is not None]
    if not names:
        return
    # The shares of joint owners are the same ones; the first name stands for them.
    for change in form.all("nonDerivativeTransaction"):
        yield from _transaction(builder, change, names[0], issuer)
    for holding in form.all("nonDerivativeHolding"):
        yield from _owned(builder, holding, names[0], issuer, when)


def _owner(builder: FactBuilder, owner: Element, issuer: Piece, when: Piece | None) -> Iterator[Fact]:
    name = _text(owner, "reportingOwnerId/rptOwnerName")
    if name is None:
        return
    yield from builder.fact("person", name=name, cik=_text(owner, "reportingOwnerId/rptOwnerCik"))
    bond = owner.find("reportingOwnerRelationship")
    if bond is None:
        return
    roles: list[Piece] = []
    director = bond.find("isDirector")
    if director is not None and director.value.lower() in ("1", "true"):
        # The name of the element is the word.
        begin = director.start + len("is")
        roles.append(Piece("Director", begin, begin + len("Director")))
    title = _text(bond, "officerTitle")
    officer = bond.find("isOfficer")
    if title is not None and officer is not None and officer.value.lower() in ("1", "true"):
        roles.append(title)
    for role in roles:
        yield from builder.fact(
            "role",
            {"action": "holds"},
            person=name,
            company=issuer,
            title=role,
            valid_from=None,
            valid_to=None,
            as_of=when,
        )


def _transaction(builder: FactBuilder, change: Element, owner: Piece, issuer: Piece) -> Iterator[Fact]:
    code = change.find("transactionAmounts/transactionAcquiredDisposedCode/value")
    kinds = {"A": "acquired shares", "D": "disposed of shares"}
    shares = _number(change, "transactionAmounts/transactionShares/value")
    when = _day(change, "transactionDate/value")
    if code is None or code.value not in kinds or shares is None:
        return
    yield from relation(
        builder,
        kinds[code.value],
        subject=owner,
        object=issuer,
        detail=_text(change, "securityTitle/value"),
        shares=shares,
        price=_number(change, "transactionAmounts/transactionPricePerShare/value"),
        valid_from=when,
        valid_to=when,
    )
    yield from _owned(builder, change, owner, issuer, when)


def _owned(builder: FactBuilder, holding: Element, owner: Piece, issuer: Piece, when: Piece | None) -> Iterator[Fact]:
    shares = _number(holding, "postTransactionAmounts/sharesOwnedFollowingTransaction/value")
    if shares is None:
        return
    detail = _text(holding, "securityTitle/value")
    yield from relation(builder, "owns", subject=owner, object=issuer, detail=detail, shares=shares, valid_from=when)


def _text(element: Element, path: str) -> Piece | None:
    found = element.find(path)
    if found is None or not found.value:
        return None
    return Piece(found.value, found.value_at, found.value_at + len(found.value))


def _number(element: Element, path: str) -> Piece | None:
    found = _text(element, path)
    value = None if found is None else number_in(str(found.value))
    return None if found is None or value is None else Piece(value, found.start, found.end)


def _day(element: Element, path: str) -> Piece | None:
    found = _text(element, path)
    value = None if found is None else date_in(str(found.value))
    return None if found is None or value is None else Piece(value.isoformat(), found.start, found.end)
