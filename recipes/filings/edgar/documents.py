"""The text of a document, as people read it."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

_BLOCKS = frozenset(
    [
        "address",
        "article",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "footer",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "title",
        "tr",
        "ul",
    ]
)
_HIDDEN = frozenset(("script", "style", "noscript", "template", "head"))
_PAGE_TAGS = re.compile(r"</?(?:PAGE|TABLE|CAPTION|S|C|FN|F\d{1,2}|BTB|ETB|MULTIPLIER)>", re.IGNORECASE)
_IS_HTML = re.compile(r"<(?:html|body|p|div|table|tr|td|font|br)\b[^<>]*>", re.IGNORECASE)
_IS_XML = re.compile(r"\A\s*<XML>|\A\s*<\?xml", re.IGNORECASE)
_ENCODED = re.compile(r"^begin \d{3} \S", re.MULTILINE)


def kind_of(text: str) -> str:
    """Return what the text of a document is: `xml`, `html`, `text`, or `encoded` for a picture or another file."""
    beginning = text[:20_000]
    if _IS_XML.search(beginning):
        return "xml"
    if _ENCODED.search(beginning) or beginning.lstrip().startswith(("<PDF>", "%PDF")):
        return "encoded"
    # <TABLE>, <S> and <C> are in plain text, too.
    tags = len(_IS_HTML.findall(beginning)) - len(re.findall(r"(?m)^\s*<TABLE>\s*$", beginning))
    return "html" if tags > 2 or re.search(r"<html\b", beginning, re.IGNORECASE) else "text"


def html_text(source: str) -> str:
    """Return the text of a page: a line for each block, a tab between the cells of a table."""
    parts: list[str] = []
    root = LexborHTMLParser(source).root
    waiting: list[tuple[LexborNode, bool]] = [] if root is None else [(root, False)]
    while waiting:
        node, leaving = waiting.pop()
        tag = node.tag or ""
        if tag == "-text":
            parts.append(" ".join(f"|{node.text_content or ''}|".split())[1:-1])
            continue
        block = tag in _BLOCKS
        if leaving:
            parts.append("\n" if block else "\t")
            continue
        if tag in _HIDDEN or tag.startswith(("-", "!")):
            continue
        if tag == "br":
            parts.append("\n")
            continue
        if block:
            parts.append("\n")
        if block or tag in ("td", "th"):
            waiting.append((node, True))
        waiting.extend((each, False) for each in reversed(list(node.iter(include_text=True))))
    lines = (re.sub(r" *\t[ \t]*", "\t", line).strip() for line in "".join(parts).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(re.sub(r" {2,}", " ", line) for line in lines)).strip()


def plain_text(source: str) -> str:
    """Return an old filing without the tags of its pages and tables."""
    lines = (_PAGE_TAGS.sub("", line).rstrip() for line in source.expandtabs().split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
