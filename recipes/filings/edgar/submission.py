"""The frame of a submission: a header, and documents one after another."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date

from filings.edgar.decode import decoded
from filings.edgar.documents import html_text, kind_of, plain_text
from filings.edgar.header import Header, Party, Quote, day_of, read_header
from filings.edgar.xml_tree import Element, read_xml

_HEADER = re.compile(r"<(SEC|IMS)-HEADER>[^\n]*\n?")
_HEADER_END = re.compile(r"</(?:SEC|IMS)-HEADER>")
_DOCUMENT = re.compile(r"^<DOCUMENT>[ \t]*$", re.MULTILINE)
_DOCUMENT_END = re.compile(r"^</DOCUMENT>", re.MULTILINE)
_TEXT = re.compile(r"^<TEXT>", re.MULTILINE)
_TEXT_END = re.compile(r"^</TEXT>", re.MULTILINE)
_FIELD = re.compile(r"^<(TYPE|SEQUENCE|FILENAME|DESCRIPTION)>([^\n]*)", re.MULTILINE)
_XML_FRAME = re.compile(r"</?XML>\s*", re.IGNORECASE)
_MOST_DOCUMENTS = 5_000


@dataclass(frozen=True)
class Problem:
    """Something that could not be read."""

    code: str
    detail: str


@dataclass
class Document:
    """A document of a submission."""

    type: str
    filename: str
    kind: str
    """xml, html, text or encoded."""
    start: int
    """Where its text begins in the text of the filing."""
    text: str
    tree: Element | None = None
    """Of XML."""

    @property
    def end(self) -> int:
        """Where its text ends in the text of the filing."""
        return self.start + len(self.text)


@dataclass
class Submission:
    """A submission as it was read. `text` is the text of the filing; every place in it counts from its beginning."""

    text: str = ""
    header: Header = field(default_factory=Header)
    documents: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def accession(self) -> Quote | None:
        """The number of the submission."""
        found = self.header.lines.get("ACCESSION NUMBER")
        return found if found is not None and re.fullmatch(r"\d{10}-\d\d-\d{6}", found.text) else None

    @property
    def form(self) -> Quote | None:
        """The form, as in 8-K or SC 13D/A."""
        found = self.header.lines.get("CONFORMED SUBMISSION TYPE")
        return found if found is not None and found.text else None

    @property
    def filed(self) -> Quote | None:
        """The day of the filing, if it is one."""
        return self._day("FILED AS OF DATE")

    @property
    def period(self) -> Quote | None:
        """The period or the day that it reports on, if it is one."""
        return self._day("CONFORMED PERIOD OF REPORT")

    @property
    def company(self) -> Party | None:
        """The company that the filing is about."""
        for part in ("issuer", "subject", "filer"):
            for party in self.header.parties:
                if party.part == part:
                    return party
        return None

    @property
    def cut_off(self) -> bool:
        """Whether the file ends in the middle."""
        return any(each.code in ("document-cut", "header-cut", "end-missing") for each in self.problems)

    def main(self) -> Document | None:
        """Return the document that is the form itself."""
        form = "" if self.form is None else self.form.text
        named = [each for each in self.documents if each.type and form.startswith(each.type.removesuffix("/A"))]
        readable = [each for each in self.documents if each.kind != "encoded"]
        return next(iter(named or readable), None)

    def _day(self, name: str) -> Quote | None:
        found = self.header.lines.get(name)
        return found if found is not None and day_of(found.text) is not None else None


def read_submission(body: bytes) -> Submission:
    """Read a submission. It never raises: what cannot be read is in `problems`."""
    source, clean = decoded(body)
    read = Submission()
    if not clean:
        read.problems.append(Problem("bad-bytes", "some bytes are no text in any encoding that filings have"))
    position = _read_header(source, read)
    _read_documents(source, position, read)
    _check_header(read)
    return read


def date_of(quote: Quote | None) -> date | None:
    """Return the day of a header line."""
    return None if quote is None else day_of(quote.text)


def _read_header(source: str, read: Submission) -> int:
    begin = _HEADER.search(source)
    first = _DOCUMENT.search(source)
    if begin is None or (first is not None and first.start() < begin.start()):
        read.problems.append(Problem("no-header", "there is no <SEC-HEADER>"))
        return 0
    end = _HEADER_END.search(source, begin.end())
    stop = end.start() if end is not None else first.start() if first is not None else len(source)
    if end is None:
        read.problems.append(Problem("header-cut", "the header does not end"))
    read.text = source[begin.end() : stop].rstrip()
    read.header = read_header(read.text, 0)
    return stop


def _read_documents(source: str, position: int, read: Submission) -> None:
    while (begin := _DOCUMENT.search(source, position)) is not None:
        if len(read.documents) >= _MOST_DOCUMENTS:
            read.problems.append(Problem("too-many-documents", f"only the first {_MOST_DOCUMENTS} were read"))
            return
        end = _DOCUMENT_END.search(source, begin.end())
        following = _DOCUMENT.search(source, begin.end())
        number = len(read.documents) + 1
        if end is None or (following is not None and following.start() < end.start()):
            stop = following.start() if following is not None else len(source)
            read.problems.append(Problem("document-cut", f"document {number} does not end"))
            position = stop
        else:
            stop, position = end.start(), end.end()
        _add_document(source[begin.end() : stop], read, number)
    if not read.documents:
        read.problems.append(Problem("no-document", "there is no <DOCUMENT>"))
    if not re.search(r"</(?:SEC|IMS)-DOCUMENT>", source[position:]) and not read.cut_off:
        read.problems.append(Problem("end-missing", "the file ends without </SEC-DOCUMENT>"))


def _add_document(source: str, read: Submission, number: int) -> None:
    begin = _TEXT.search(source)
    fields = {found[1]: found[2].strip() for found in _FIELD.finditer(source[: begin.start() if begin else None])}
    if not fields.get("TYPE"):
        read.problems.append(Problem("type-missing", f"document {number} has no <TYPE>"))
    end = _TEXT_END.search(source, begin.end()) if begin else None
    inner = "" if begin is None else source[begin.end() : end.start() if end else len(source)]
    kind = kind_of(inner)
    title = f"\n\n=== document {number}: {fields.get('TYPE') or 'no type'} ===\n"
    start = len(read.text) + len(title)
    tree = None
    if kind == "xml":
        tree, text, well_formed = read_xml(_XML_FRAME.sub("", inner), start)
        if not well_formed:
            read.problems.append(Problem("xml-malformed", f"the XML of document {number} is malformed"))
    elif kind == "encoded":
        text = ""
        read.problems.append(Problem("not-text", f"document {number} ({fields.get('FILENAME', '')}) is no text"))
    else:
        text = html_text(inner) if kind == "html" else plain_text(inner)
    read.text += title + text
    read.documents.append(Document(fields.get("TYPE", ""), fields.get("FILENAME", ""), kind, start, text, tree))


def _check_header(read: Submission) -> None:
    lines = read.header.lines
    if "no-header" in {each.code for each in read.problems}:
        return
    for name, code in (("FILED AS OF DATE", "date-malformed"), ("CONFORMED PERIOD OF REPORT", "date-malformed")):
        if name in lines and day_of(lines[name].text) is None:
            read.problems.append(Problem(code, f"{name} is no day: {lines[name].text[:40]!r}"))
    for name in ("ACCESSION NUMBER", "CONFORMED SUBMISSION TYPE", "FILED AS OF DATE"):
        if name not in lines:
            read.problems.append(Problem("field-missing", f"the header has no {name}"))
    if read.company is None or read.company.name is None:
        read.problems.append(Problem("company-missing", "the header names no company"))
    counted = lines.get("PUBLIC DOCUMENT COUNT")
    if (
        counted is not None
        and counted.text.isdecimal()
        and not read.cut_off
        and int(counted.text[:9]) != len(read.documents)
    ):
        read.problems.append(
            Problem(
                "document-count", f"the header counts {counted.text[:9]} documents, there are {len(read.documents)}"
            )
        )
