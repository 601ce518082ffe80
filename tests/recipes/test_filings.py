"""The parts of the recipe `filings`: parser, rules, places in the text, pages, index, intervals."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filings.edgar.index import read_index
from filings.edgar.submission import Submission, read_submission
from filings.edgar.xml_tree import read_xml
from filings.facts.fact import RECORDS, Fact, Ground
from filings.facts.grounding import Grounding, fold
from filings.facts.rules import facts_of
from filings.facts.spelling import date_in, number_in
from filings.graph.intervals import Interval, intervals
from filings.handlers import _read
from filings.page import page_of
from filings.replica.index import index_page, quarter
from filings.replica.layouts import file_of
from filings.replica.stories import Filing, filings, truth

OWN_WORDS = {"kind", "part", "action"}


def found_in(filing: Filing) -> tuple[Submission, list[Fact]]:
    read = read_submission(file_of(filing))
    facts, dropped = facts_of(read)
    assert dropped == 0
    return read, facts


@pytest.mark.ledger("C4")
@pytest.mark.parametrize("filing", filings(), ids=lambda each: f"{each.accession} {each.form} {each.fault}")
def test_the_rules_find_every_fact_of_a_filing_and_invent_none(filing: Filing) -> None:
    read, facts = found_in(filing)
    wanted = Counter(json.dumps([kind, {**values, "source": ""}], sort_keys=True) for kind, values in truth(filing)[1:])
    found = Counter(json.dumps([each.kind, {**each.values, "source": ""}], sort_keys=True) for each in facts)
    assert found == wanted
    assert sorted({each.code for each in read.problems}) == truth(filing)[0][1]["problems"]


@pytest.mark.ledger("C4")
def test_every_value_has_its_place_in_the_text() -> None:
    matches = Counter[str]()
    for filing in filings():
        read, facts = found_in(filing)
        for fact in facts:
            RECORDS[fact.kind].model_validate(fact.record(filing.accession))
            known = {name for name, value in fact.values.items() if value is not None and name not in OWN_WORDS}
            assert fact.grounds.keys() == known
            for name, ground in fact.grounds.items():
                value, piece = fact.values[name], read.text[ground.start : ground.end]
                matches[ground.match] += 1
                if ground.match == "exact":
                    assert piece == value
                else:
                    assert isinstance(value, float) or fold(piece) == fold(str(value)) or date_in(piece) is not None
                    assert (
                        number_in(piece) == value if isinstance(value, float) else date_in(piece) == date_in(str(value))
                    )
    assert matches["exact"] > 300
    assert matches["folded"] > 100


def test_the_replica_has_every_form_and_every_fault() -> None:
    assert 55 <= len(filings()) <= 70
    assert {each.form for each in filings()} == {
        "8-K", "8-K/A", "10-K", "10-Q", "SC 13D", "SC 13G", "3", "4", "5",
    }  # fmt: skip
    assert {each.filed.year for each in filings()} == {1998, 2010}
    assert len({each.accession for each in filings()}) == len(filings())
    faults = Counter(each.fault for each in filings() if each.fault)
    assert faults.keys() >= {
        "bad-bytes", "document-count", "document-cut", "type-missing", "no-header", "date-malformed", "picture",
        "xml-malformed", "end-missing", "number-malformed", "company-missing",
    }  # fmt: skip
    kinds = Counter((kind, values.get("kind")) for each in filings() for kind, values in truth(each))
    assert min(kinds.values()) >= 2, kinds


def test_a_file_cannot_pass_for_another_filing() -> None:
    first, second = filings()[30:32]
    reading = _read(file_of(first), second.accession)
    assert reading.accession == second.accession
    assert [each.code for each in reading.submission.problems][-1] == "accession-differs"


FILES = [file_of(each) for each in filings()]
WORDS = (
    b"<DOCUMENT>",
    b"</TEXT>",
    b"<SEC-HEADER>",
    b"<XML>",
    b"</",
    b"\x00",
    b"\xff\xfe",
    b"<a b='",
    b"&#x110000;",
    b"Item 5.02",
)


@given(st.integers(0, len(FILES) - 1), st.randoms(use_true_random=False))
def test_nothing_raises_on_a_filing_that_was_mutated(number: int, dice: random.Random) -> None:
    body = bytearray(FILES[number])
    for _ in range(dice.randint(1, 12)):
        at, length = dice.randrange(len(body) + 1), dice.choice((1, 1, 8, 200))
        change = dice.randrange(4)
        if change == 0:
            del body[at : at + length]
        elif change == 1:
            body[at:at] = dice.choice(WORDS)
        elif change == 2:
            body[at : at + length] = dice.randbytes(length)
        else:
            body[at:at] = body[max(at - length, 0) : at] * 3
    everything(bytes(body))


@given(st.binary(max_size=400))
def test_nothing_raises_on_any_bytes(body: bytes) -> None:
    read = everything(body)
    assert read.problems, "no such file is a filing"


@given(st.text(alphabet="<>/!?-=\"'&; \nabSEC-HEADERDOCUMENTXMLitem5.021998", max_size=300))
def test_nothing_raises_on_scraps_of_markup(text: str) -> None:
    everything(f"<SEC-HEADER>x\n{text}</SEC-HEADER>\n<DOCUMENT>\n<TYPE>8-K\n<TEXT>\n<html>{text}\n</TEXT>".encode())
    everything(f"<SEC-HEADER>x\n{text}\n<DOCUMENT>\n<TEXT>\n<XML>\n{text}".encode())


def everything(body: bytes) -> Submission:
    read = read_submission(body)
    facts, _ = facts_of(read)
    for fact in facts:
        RECORDS[fact.kind].model_validate(fact.record("x"))
        for ground in fact.grounds.values():
            assert 0 <= ground.start < ground.end <= len(read.text)
    assert page_of("x", read, facts).endswith("</html>\n")
    read_index(body)
    return read


def test_a_very_deep_and_a_very_long_file_are_read() -> None:
    deep = b"<DOCUMENT>\n<TYPE>8-K\n<TEXT>\n<html>" + b"<div>" * 5_000 + b"x\n</TEXT>\n</DOCUMENT>"
    assert [each.code for each in read_submission(deep).problems] == ["no-header", "end-missing"]
    tree, _, well_formed = read_xml("<a>" * 100_000)
    assert not well_formed
    assert tree.children
    names = b"<DOCUMENT>\n<TYPE>8-K\n<TEXT>\n" + b"Ann Bee Cee Dee " * 20_000 + b"\n</TEXT>\n</DOCUMENT>"
    read = read_submission(b"<SEC-HEADER>\nCONFORMED SUBMISSION TYPE:\t8-K\n</SEC-HEADER>\n" + names)
    assert facts_of(read)[0] == []


@pytest.mark.parametrize(
    ("value", "text", "match", "piece"),
    [
        ("Ann Bee", "Dr. Ann Bee is here", "exact", "Ann Bee"),
        ("ann bee", "Dr. Ann\n   Bee is here", "folded", "Ann\n   Bee"),
        ("O'Dowd & Co", "by O’Dowd & Co", "folded", "O’Dowd & Co"),
        ("2010-03-04", "on March 4, 2010 it", "folded", "March 4, 2010"),
        ("20100304", "FILED: 20100304", "exact", "20100304"),
        (1250000.0, "for $1,250,000 in", "folded", "$1,250,000"),
        (12.5e6, "for $12.5 million in", "folded", "$12.5 million"),
        ("Tidemark Instruments, Inc.", "by Tidemark Instrments, Inc.", "fuzzy", "Tidemark Instrments, Inc."),
    ],
)  # fmt: skip
def test_a_value_is_found_exactly_folded_or_similar(value: str | float, text: str, match: str, piece: str) -> None:
    ground = Grounding(text).find(value)
    assert ground is not None
    assert (ground.match, text[ground.start : ground.end]) == (match, piece)
    assert ground.score == 1 if match != "fuzzy" else 0.85 <= ground.score < 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Ann", "the Annual Report"),
        ("2010-03-05", "on March 4, 2010"),
        ("2010-02-30", "February 30, 2010"),
        (1250001.0, "for $1,250,000"),
        ("Harborlight Maritime Corporation", "Tidemark Instruments, Inc."),
        ("Section 16 Officer", "Section 18 Officer"),
        ("", "text"),
        ("x" * 400, "x" * 400),
    ],
)
def test_a_value_that_is_not_in_the_text_has_no_place(value: str | float, text: str) -> None:
    assert Grounding(text).find(value) is None


def test_of_several_places_the_first_from_the_passage_on_is_taken() -> None:
    text = "Ann Bee. Then Ann Bee. Ann Bee"
    assert Grounding(text).find("Ann Bee", 5) == Ground(14, 21)
    assert Grounding(text).find("ANN BEE", 15) == Ground(23, 30, "folded")
    assert Grounding(text).find("Ann Bee", 28) == Ground(0, 7), "else the first of all"


def test_the_page_shows_every_fact_and_escapes_hostile_text() -> None:
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u202egnp.exe"
    body = file_of(filings()[30]).decode("cp1252", "replace")
    name = re.search(r"COMPANY CONFORMED NAME:\s+(.+)", body)
    assert name is not None
    read = read_submission(body.replace(name[1], hostile).encode())
    facts, _ = facts_of(read)
    page = page_of("</title><script>", read, facts)
    assert "<script" not in page
    assert "<img" not in page
    assert "onerror=alert(2)&gt;&amp;amp;\ufffd" in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    for number in range(1, len(facts) + 1):
        assert page.count(f'<a id="f{number}"></a>') == 1
    shown = re.sub(r"<[^<>]*>", "", page[page.index("<pre>") : page.index("</pre>")])
    from html import unescape

    assert unescape(shown) == read.text.replace("\u202e", "\ufffd")


@pytest.mark.ledger("C1")
@pytest.mark.parametrize("year", [1998, 2010])
def test_the_lists_of_a_quarter_are_read_in_both_layouts(year: int) -> None:
    for number in (1, 2, 3, 4):
        found, page, unread, more = [], 1, 0, True
        while more:
            listed = index_page(year, number, page)
            assert listed is not None
            text, more = listed
            entries, lines = read_index(text.encode("cp1252"))
            found += [each for each in entries if each.form != "424B3"]
            unread += len(lines)
            page += 1
        by_accession = {each.accession: each for each in found}
        wanted = quarter(year, number)
        assert list(by_accession) == [each.accession for each in wanted]
        assert unread >= sum(each.number % 11 == 0 for each in wanted)
        for each in wanted:
            entry = by_accession[each.accession]
            assert (entry.form, entry.company, entry.cik) == (each.form, each.company.name, each.company.cik)
            assert (entry.filed, entry.path) == (each.filed, each.path)


def test_a_role_lasts_from_its_beginning_to_the_first_end_after_it() -> None:
    def role(
        action: str, begin: str | None = None, end: str | None = None, title: str = "Treasurer"
    ) -> dict[str, str | None]:
        return {"title": title, "action": action, "valid_from": begin, "valid_to": end}

    said = [
        role("begins", "2009-05-01"), role("ends", None, "2010-03-01"), role("begins", "2011-01-01", title="TREASURER"),
        role("holds"), role("ends", None, "2008-01-01"), role("holds", title="Director"),
    ]  # fmt: skip
    wanted = [
        Interval("Director", "", ""), Interval("TREASURER", "", "2008-01-01"),
        Interval("TREASURER", "2009-05-01", "2010-03-01"), Interval("TREASURER", "2011-01-01", ""),
    ]  # fmt: skip
    for seed in range(20):
        random.Random(seed).shuffle(said)
        assert intervals(said + said[:2]) == wanted


def test_days_and_numbers_are_read_as_filings_write_them() -> None:
    assert {date_in(each) for each in ("March 4, 2010", "MARCH  4,\n2010", "2010-03-04", "20100304", "3/4/2010")} == {
        date(2010, 3, 4)
    }
    assert [date_in(each) for each in ("March 32, 2010", "Marchember 4, 2010", "20101301", "")] == [None] * 4
    assert [number_in(each) for each in ("1,250", "$3.5 million", "5.6 %", "x", "9" * 60)] == [
        1250.0,
        3.5e6,
        5.6,
        None,
        None,
    ]
