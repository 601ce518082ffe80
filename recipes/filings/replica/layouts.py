"""How filings are written: two kinds of HTML, the plain text of old ones, XML; and the faults of the files."""

from __future__ import annotations

import textwrap
from html import escape
from typing import Any

from filings.replica.stories import Filing, Paper
from filings.replica.world import chance, compact

_WIDTH = 72


def problems_of(filing: Filing) -> list[str]:
    """Return the codes of what a reader cannot read in this filing."""
    fault = filing.fault
    if fault == "picture":
        return ["not-text"]
    return [] if fault in ("", "number-malformed") else [fault]


def file_of(filing: Filing) -> bytes:
    """Return the file of a filing."""
    old = filing.filed.year < 2000
    dice = chance("layout", filing.accession)
    style = "text" if old else dice.choice(("blocks", "tables"))
    count = len(filing.papers) + (1 if filing.fault == "document-count" else 0)
    parts = [_header(filing, count, old=old)]
    for number, paper in enumerate(filing.papers, 1):
        parts.append(_document(filing, paper, number, style))
    text = "".join(parts) + (
        "</SEC-DOCUMENT>\n-----END PRIVACY-ENHANCED MESSAGE-----\n" if old else "</SEC-DOCUMENT>\n"
    )
    if filing.fault == "no-header":
        text = text[text.index("<DOCUMENT>") :]
    if filing.fault == "document-cut":
        text = text[: text.rindex("Exhibit 99.1")]
    if filing.fault == "end-missing":
        text = text[: text.rindex("</SEC-DOCUMENT>")]
    return _encoded(filing, text)


def _encoded(filing: Filing, text: str) -> bytes:
    if filing.fault == "bad-bytes":
        body = text.encode("cp1252", errors="replace")
        for word in (b"customary", b"candidates", b"Exhibit", b"meeting", b"assurance"):
            # A byte without a meaning.
            body = body.replace(word, word[:3] + b"\x81" + word[4:])
        return body
    if filing.filed.year < 2000 or chance("encoding", filing.accession).random() < 0.4:
        try:
            return text.encode("cp1252")
        except UnicodeEncodeError:
            return text.encode()
    return text.encode()


def _header(filing: Filing, count: int, *, old: bool) -> str:
    company = filing.company
    name = f"{filing.accession}.txt"
    lines = []
    if old:
        lines += [
            "-----BEGIN PRIVACY-ENHANCED MESSAGE-----",
            "Proc-Type: 2001,MIC-CLEAR",
            "Originator-Name: a@b.example",
            "",
        ]
    lines += [
        f"<SEC-DOCUMENT>{name} : {compact(filing.filed)}",
        f"<SEC-HEADER>{filing.accession}.hdr.sgml : {compact(filing.filed)}",
    ]
    period = (
        f"{filing.period:%Y}{filing.period:%b}".upper() if filing.fault == "date-malformed" else compact(filing.period)
    )
    lines += [
        f"ACCESSION NUMBER:\t\t{filing.accession}",
        f"CONFORMED SUBMISSION TYPE:\t{filing.form}",
        f"PUBLIC DOCUMENT COUNT:\t\t{count}",
        f"CONFORMED PERIOD OF REPORT:\t{period}",
        f"FILED AS OF DATE:\t\t{compact(filing.filed)}",
        "",
    ]
    for part, owner, cik in filing.owners:
        section = "OWNER DATA" if part == "REPORTING-OWNER" else "COMPANY DATA"
        lines += [
            f"{part}:",
            "",
            f"\t{section}:\t",
            f"\t\tCOMPANY CONFORMED NAME:\t\t\t{owner}",
            f"\t\tCENTRAL INDEX KEY:\t\t\t{cik}",
        ]
        lines += ["\t\tSTATE OF INCORPORATION:\t\t\tDE"] if part == "FILED BY" else []
        lines += ["\tFILING VALUES:", f"\t\tFORM TYPE:\t\t{filing.form}", ""]
    part = (
        "ISSUER" if filing.form in ("3", "4", "5") else "SUBJECT COMPANY" if filing.form.startswith("SC") else "FILER"
    )
    lines += [f"{part}:", "", "\tCOMPANY DATA:\t"]
    if filing.fault != "company-missing":
        lines.append(f"\t\tCOMPANY CONFORMED NAME:\t\t\t{company.name}")
    lines += [
        f"\t\tCENTRAL INDEX KEY:\t\t\t{company.cik}",
        f"\t\tSTANDARD INDUSTRIAL CLASSIFICATION:\t{company.industry} [{company.sic}]",
        "\t\tIRS NUMBER:\t\t\t\t000000000",
        f"\t\tSTATE OF INCORPORATION:\t\t\t{company.state}",
        "\t\tFISCAL YEAR END:\t\t\t1231",
        "",
        "\tBUSINESS ADDRESS:\t",
        "\t\tSTREET 1:\t\t1 REPLICA WAY",
        f"\t\tSTATE:\t\t\t{company.state}",
        "",
        "\tFORMER COMPANY:\t",
        f"\t\tFORMER CONFORMED NAME:\tOLD {company.name}",
        "\t\tDATE OF NAME CHANGE:\t19900101",
        "</SEC-HEADER>",
        "",
    ]
    return "\n".join(lines)


def _document(filing: Filing, paper: Paper, number: int, style: str) -> str:
    type_line = "" if filing.fault == "type-missing" and number == 1 else f"<TYPE>{paper.type}\n"
    if paper.kind == "picture":
        inner, name = "begin 644 logo.jpg\nM_]C_X``02D9)1@`!`0\n`\nend\n", "logo.jpg"
    elif paper.kind == "xml":
        inner, name = _ownership_xml(filing, paper), "primary_doc.xml"
    elif style == "text":
        inner, name = _plain(filing, paper), f"d{number}.txt"
    else:
        inner, name = _html(filing, paper, style), f"d{number}.htm"
    frame = f"<DOCUMENT>\n{type_line}<SEQUENCE>{number}\n<FILENAME>{name}\n<DESCRIPTION>{paper.type}\n<TEXT>\n"
    return f"{frame}{inner}</TEXT>\n</DOCUMENT>\n"


def _plain(filing: Filing, paper: Paper) -> str:
    lines: list[str] = ["<PAGE>", ""]

    def wrapped(text: str, indent: str = "") -> None:
        lines.extend([*textwrap.wrap(text, _WIDTH, initial_indent=indent), ""])

    for kind, *rest in paper.blocks:
        match kind:
            case "cover":
                titles = ("THE REPLICA COMMISSION", f"FORM {filing.form}", *rest, filing.company.full_name.upper())
                lines.extend([*(each.center(_WIDTH) for each in titles), ""])
            case "item":
                wrapped(f"Item {rest[0]}.  {rest[1]}")
            case "heading":
                lines.extend([rest[0].center(_WIDTH), ""])
            case "under":
                lines.extend([rest[0].center(_WIDTH), rest[1].center(_WIDTH), ""])
            case "rows":
                lines.extend(["<TABLE>", "<S>                                 <C>"])
                lines.extend(f"{cells[0]:<40}{cells[1]}" for cells in rest[0])
                lines.extend(["</TABLE>", ""])
            case "signature":
                name, title, day = rest
                lines.extend([" " * 30 + each for each in (f"/s/ {name}", name, title)])
                lines.extend(([" " * 30 + f"Date: {day}"] if day else []) + ["", ""])
            case "owner":
                name, shares, percent, owner_type = rest
                lines.extend(
                    [
                        "(1)  Names of Reporting Persons",
                        f"     {name}",
                        "(11) Aggregate Amount Beneficially Owned by Each Reporting Person",
                        f"     {shares}",
                        "(13) Percent of Class Represented by Amount in Row (11)",
                        f"     {percent}%",
                        "(14) Type of Reporting Person (See Instructions)",
                        f"     {owner_type}",
                        "<PAGE>",
                        "",
                    ]
                )
            case _:
                wrapped(rest[0], "     ")
    return "\n".join(lines) + "\n"


def _html(filing: Filing, paper: Paper, style: str) -> str:
    dice = chance("html", filing.accession, paper.type)
    charset = dice.choice(
        ('<meta charset="utf-8">', '<meta http-equiv="Content-Type" content="text/html; charset=us-ascii">', "")
    )
    body = "\n".join((_as_blocks if style == "blocks" else _as_tables)(filing, *block) for block in paper.blocks)
    script = (
        "<script>var a = '<p>On May 5, 2010, the Board of Directors appointed Nemo Nautilus as Treasurer.</p>'</script>"
    )
    end = "" if dice.random() < 0.3 else "</body></html>\n"
    return f"<HTML><HEAD><TITLE>{escape(paper.type)}</TITLE>{charset}</HEAD><BODY>\n{script}{body}\n{end}"


def _as_blocks(filing: Filing, kind: str, *rest: Any) -> str:
    match kind:
        case "cover":
            name = escape(filing.company.full_name)
            return f"<h1>FORM {escape(filing.form)}</h1><h2>{escape(rest[0])}</h2><p>{rest[1]}</p><p><b>{name}</b></p>"
        case "item":
            return f"<p><b>Item&nbsp;{rest[0]}. {escape(rest[1])}</b></p>"
        case "heading":
            return f"<h3>{escape(rest[0])}</h3>"
        case "under":
            return f"<p align=center><u>{escape(rest[0])}</u><br>{escape(rest[1])}"
        case "rows":
            rows = "".join(
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>\n" for cells in rest[0]
            )
            return f"<table>{rows}</table>"
        case "signature":
            name, title, day = rest
            lines = [f"/s/ {name}", name, title] + ([f"Date: {day}"] if day else [])
            return "<p>" + "<br>\n".join(map(escape, lines)) + "</p>"
        case "owner":
            name, shares, percent, owner_type = rest
            return (
                f"<p>1. NAMES OF REPORTING PERSONS<br>{escape(name)}</p><p>11. AGGREGATE AMOUNT BENEFICIALLY OWNED BY "
                f"EACH REPORTING PERSON<br>{shares}</p><p>13. PERCENT OF CLASS REPRESENTED BY AMOUNT IN ROW (11)<br>"
                f"{percent}%</p>"
                f"<p>14. TYPE OF REPORTING PERSON<br>{owner_type}</p><hr>"
            )
        case _:
            return f"<p>{escape(rest[0])}"


def _as_tables(filing: Filing, kind: str, *rest: Any) -> str:
    def row(*cells: str) -> str:
        return "<tr>" + "".join(f'<td valign="top"><font size="2">{cell}</font></td>' for cell in cells) + "</tr>"

    match kind:
        case "cover":
            cover = (f"Form {filing.form}", rest[0], rest[1], filing.company.full_name)
            return "<div>" + "</div>\n<div>".join(map(escape, cover)) + "</div>"
        case "item":
            return f"<table>{row(f'<b>ITEM {rest[0]}</b>', escape(rest[1]).upper())}</table>"
        case "heading":
            return f"<center><b>{escape(rest[0])}</b></center>"
        case "under":
            return f"<table>{row(escape(rest[0]))}{row(escape(rest[1]))}</table>"
        case "rows":
            return "<table>" + "\n".join(row(*map(escape, cells)) for cells in rest[0]) + "</table>"
        case "signature":
            name, title, day = rest
            lines = [row("By:", f"/s/ {escape(name)}"), row("Name:", escape(name)), row("Title:", escape(title))]
            return "<table>" + "\n".join(lines + ([row("Date:", day)] if day else [])) + "</table>"
        case "owner":
            name, shares, percent, owner_type = rest
            lines = [
                row("Name of reporting person") + row(escape(name)),
                row("Aggregate amount beneficially owned by each reporting person", shares),
                row("Percent of class represented by amount in row (9)", f"{percent} %"),
                row("Type of reporting person", owner_type),
            ]
            return "<table>" + "\n".join(lines) + "</table>"
        case _:
            # A long word in a cell of its own, and a comment in the middle of a sentence.
            return f"<div><span>{escape(rest[0]).replace(' the ', ' <!-- x -->the ', 1)}</span></div><br>"


def _ownership_xml(filing: Filing, paper: Paper) -> str:
    company = filing.company
    lines = [
        "<XML>",
        '<?xml version="1.0"?>',
        "<ownershipDocument>",
        f"<documentType>{filing.form}</documentType>",
        f"<periodOfReport>{filing.period.isoformat()}</periodOfReport>",
        f"<issuer><issuerCik>{company.cik}</issuerCik><issuerName>{escape(company.name)}</issuerName></issuer>",
    ]
    table: list[str] = []
    for kind, *rest in paper.blocks:
        if kind == "owner":
            name, cik, director, title = rest
            shown = "" if title is None else f"<officerTitle>{escape(title)}</officerTitle>"
            lines.append(
                f"<reportingOwner><reportingOwnerId><rptOwnerCik>{cik}</rptOwnerCik><rptOwnerName>{escape(name)}</rptOwnerName>"
                f"</reportingOwnerId><reportingOwnerRelationship><isDirector>{int(director)}</isDirector>"
                f"<isOfficer>{int(title is not None)}</isOfficer>{shown}</reportingOwnerRelationship></reportingOwner>"
            )
        elif kind == "holding":
            table.append(
                f"<nonDerivativeHolding>{_value('securityTitle', rest[0])}{_after(rest[1])}</nonDerivativeHolding>"
            )
        else:
            security, when, shares, price, code, held = rest
            cost = "<footnoteId id='F1'/>" if price is None else f"<value>{price}</value>"
            table.append(
                f"<nonDerivativeTransaction>{_value('securityTitle', security)}"
                f"{_value('transactionDate', when.isoformat())}"
                f"<transactionAmounts>{_value('transactionShares', f'{shares:.0f}')}"
                f"<transactionPricePerShare>{cost}</transactionPricePerShare>"
                f"{_value('transactionAcquiredDisposedCode', code)}</transactionAmounts>{_after(held)}"
                "</nonDerivativeTransaction>"
            )
    if filing.fault == "number-malformed":
        table.append(
            f"<nonDerivativeTransaction>{_value('securityTitle', 'Common Stock')}"
            f"{_value('transactionDate', '2010-13-45')}"
            f"<transactionAmounts>{_value('transactionShares', 'see note')}"
            f"{_value('transactionAcquiredDisposedCode', 'A')}</transactionAmounts></nonDerivativeTransaction>"
        )
    lines += ["<nonDerivativeTable>", *table, "</nonDerivativeTable>", "<remarks/>"]
    lines.append(
        "<footnotes><footnote id='F1'>A gift.</footnote>" + ("" if filing.fault == "xml-malformed" else "</footnotes>")
    )
    return "\n".join([*lines, "</ownershipDocument>", "</XML>", ""])


def _value(name: str, value: str) -> str:
    return f"<{name}><value>{escape(value)}</value></{name}>"


def _after(held: float) -> str:
    return (
        f"<postTransactionAmounts>{_value('sharesOwnedFollowingTransaction', f'{held:.0f}')}</postTransactionAmounts>"
    )
