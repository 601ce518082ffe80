"""Pages that are built to take very long, or all memory, when their elements are read."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from longshore import ProcessingError
from longshore.scrape.html import select as selecting
from longshore.scrape.html.nesting import nesting
from longshore.scrape.html.parse import Element, parse
from longshore.scrape.http.response import Response

SECONDS = 20.0
"""Of processor time: each of these pages took minutes, or more memory than the machine has."""


def page(html: str) -> Response:
    return Response(url="https://a.test/", body=html.encode())


def assert_refused_or_quick(read: Callable[[], object]) -> None:
    begin = time.thread_time()
    try:
        read()
    except ProcessingError as error:
        assert not error.retryable
    assert time.thread_time() - begin < SECONDS


def test_a_page_of_30_kb_that_repeats_its_formatting_takes_no_gigabytes() -> None:
    left_open = "".join(f"<font a{number}>" for number in range(4000))
    with pytest.raises(ProcessingError, match="repeated 16,000,000 times"):
        page("<p>" + left_open + "<p>x" * 4000).css("p")


def test_formatting_of_careless_pages_is_read() -> None:
    rows = "".join(
        f"<tr><td><p>{number}<td><a href=/{number}>x</a><td><font size=2><b>y</tr>" for number in range(4000)
    )
    assert len(page(f"<table>{rows}</table>").css("tr")) == 4000
    assert len(page("<p><b><font color=red>x</p>\n" * 300).css("p")) == 300


@pytest.mark.parametrize(
    "unit",
    [
        "<span><div></span></div>",
        "<div><!--</div>-->",
        "<div title='></div>'>",
        "<span><p></span></p>",
        "<div><script><!--<script></script></div>--></script>",
        "<td><div></td>",
        "<form><div></form>",
        "<svg><option>",
    ],
)
def test_closing_tags_that_close_nothing_do_not_hide_how_deep_a_page_is(unit: str) -> None:
    with pytest.raises(ProcessingError, match="deep"):
        parse(unit * 51_000)


def test_a_page_of_very_many_tags_is_refused() -> None:
    with pytest.raises(ProcessingError, match="5,000,000 tags"):
        parse("<p>" * 5_000_000)


@pytest.mark.parametrize("selector", [".a .b .c", ".a .b > .c", ":not(.a .b) .b .c", "x ~ p ~ p", "p:nth-child(3)"])
def test_no_selector_takes_minutes_on_a_deep_or_wide_page(selector: str) -> None:
    deep_and_wide = page("<div class=b>" * 4000 + "<p class=c></p>" * 4000)
    assert_refused_or_quick(lambda: deep_and_wide.css(selector))


def test_a_selector_of_several_parts_finds_the_same_on_a_deep_page() -> None:
    html = "<div class=b>" * 2000 + "<p class=c><i>x</i></p>" * 2000
    assert page(html).css(".a .b .c") == []
    assert len(page(f"<div class=a>{html}").css(".a .b .c")) == 2000
    assert len(page(f"<div class=a>{html}").css("div.a div.b div > p > i")) == 2000


def test_links_within_links_within_elements_are_found_once_each() -> None:
    nested = page("<div>" * 500 + "".join(f"<a href=/{number}>x</a>" for number in range(2000)))
    begin = time.thread_time()
    assert len(nested.links("div")) == 2000
    assert time.thread_time() - begin < SECONDS


TAGS = [
    "<span>",
    "</span>",
    "<div>",
    "</div>",
    "<p>",
    "</p>",
    "<b_a%d>",
    "</b>",
    "<font_x%d>",
    "</font>",
    "<i>",
    "</i>",
    "<table>",
    "</table>",
    "<tr>",
    "</tr>",
    "<td>",
    "</td>",
    "<caption>",
    "</caption>",
    "<!--",
    "-->",
    "<!-->",
    "<script>",
    "</script>",
    "<title>",
    "</title>",
    "<textarea>",
    "</textarea>",
    "<style>",
    "</style>",
    "<select>",
    "</select>",
    "<option>",
    "<optgroup>",
    "<svg>",
    "</svg>",
    "<path/>",
    "<math>",
    "</math>",
    "<form>",
    "</form>",
    "<ul>",
    "</ul>",
    "<li>",
    "</li>",
    "<dl>",
    "</dl>",
    "<dt>",
    "<dd>",
    "<button>",
    "</button>",
    "<a>",
    "</a>",
    "x",
    '"',
    "'",
    '<div_title="',
    ">",
    "<![CDATA[",
    "]]>",
    "<template>",
    "</template>",
    "<marquee>",
    "</marquee>",
    "<h1>",
    "</h1>",
    "<h2>",
    "</h2>",
    "<br>",
    "<input>",
    "<noscript>",
    "</noscript>",
    "<object>",
    "</object>",
    "<ruby>",
    "<rt>",
    "<body>",
    "<colgroup>",
    "</colgroup>",
]
units = st.lists(st.sampled_from(TAGS), min_size=1, max_size=6)


@given(units)
@example(["<span>", "<p>", "</span>", "</p>"])
@example(["<optgroup>"])
@settings(deadline=None, max_examples=100, derandomize=True)
def test_the_bounds_of_a_page_are_about_those_of_its_tree(unit: list[str]) -> None:
    html = "".join(tag.replace("_", " ").replace("%d", str(number)) for number in range(40) for tag in unit)
    depth, elements = _size(LexborHTMLParser(html).root)
    found = nesting(html)
    assert depth <= 2 * found.deepest + 4
    assert elements <= 3 * html.count("<") + found.repeated + 6


def _size(root: Element | None) -> tuple[int, int]:
    deepest = count = 0
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        assert node is not None
        deepest, count, child = max(deepest, depth), count + 1, node.child
        while child is not None:
            if child.tag is not None and child.tag[0] not in "-!":
                waiting.append((child, depth + 1))
            child = child.next
    return deepest, count


opened = st.sampled_from(
    ["<div>", "<div class=a>", "<div class=b>", "<i class=a>", "<i t>", "<span id=x>", "</>", "</>"]
)
compound = st.sampled_from(["div", "i", ".a", ".b", "*", "div.a", "#x", "[t]", "div:not(.a)", "i:first-child", "*.b"])
combinator = st.sampled_from([" ", " ", "  ", " > ", ">", " + "])
chain = st.lists(st.tuples(combinator, compound), max_size=4)


@given(st.lists(opened, max_size=40), st.lists(st.tuples(compound, chain), min_size=1, max_size=2))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_part_by_part_a_selector_finds_the_same_elements(
    tags: list[str], several: list[tuple[str, list[tuple[str, str]]]]
) -> None:
    html, still_open = "", list[str]()
    for tag in tags:
        if tag != "</>":
            still_open.append(tag[1:].split(" ")[0].strip(">"))
            html += tag
        elif still_open:
            html += f"</{still_open.pop()}>"
    tree = parse(html)
    selector = ", ".join(first + "".join(map("".join, rest)) for first, rest in several)
    found = selecting._part_by_part(tree, selector, selecting._read(selector))
    assert [each.mem_id for each in found] == list(dict.fromkeys(each.mem_id for each in tree.css(selector)))


def test_the_outermost_of_elements_contain_the_others() -> None:
    tree = parse("<div id=1><p><div id=2></div></p></div><div id=3><div id=4><div id=5>")
    assert [each.attributes["id"] for each in selecting.outermost(tree.css("div"))] == ["1", "3"]
