"""A fetched page: its elements, links and follow-on jobs."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Callable

import pytest

from longshore import ProcessingError, handler
from longshore.scrape.http.response import Response
from longshore.testing import run_handler


def page(html: str, url: str = "https://a.org/list?page=1") -> Response:
    return Response(url=url, body=html.encode())


def test_elements_are_found_by_selector() -> None:
    shop = page("<ul><li class=item>One <b>1</b><li class=item>Two</ul>")
    assert [element.text(strip=True) for element in shop.css("li.item")] == ["One1", "Two"]
    first = shop.css_first("li")
    assert first is not None
    assert first.attributes["class"] == "item"
    assert shop.css_first("table") is None


def test_text_has_single_spaces_between_words() -> None:
    assert page("<h1>\n  Blue <i>cup</i>\t</h1>").text_of("h1") == "Blue cup"


def test_a_missing_element_is_named_with_its_page() -> None:
    shop = page("<p>", "https://a.org/?token=abc")
    with pytest.raises(ProcessingError, match=re.escape("Nothing matches 'h1' on https://a.org/?token=")) as caught:
        shop.text_of("h1")
    assert "abc" not in str(caught.value)
    assert not caught.value.retryable
    assert shop.text_of("h1", "none") == "none"
    assert shop.attribute_of("a", "href", "") == ""


def test_an_attribute_is_that_of_the_first_element_that_has_it() -> None:
    assert page("<a>x<a href=/1>y").attribute_of("a", "href") == "/1"


def test_a_wrong_selector_is_an_error_of_the_handler() -> None:
    with pytest.raises(ProcessingError, match=re.escape("'a[[' is no CSS selector")):
        page("<p>").css("a[[")


@pytest.mark.parametrize(
    "written",
    [
        *(
            "?p=x.git;a=log",
            "?wsdl",
            "?b=2&a=1",
            "?a=b&",
            "?q=50%",
            "/a%2Bb",
            "/a%2Cb",
            "/%7Eme",
            "/a[1]",
            "?u=http://y.test/",
        ),
        *("?q=%C4%E3", "//", "?"),
    ],
)
def test_a_link_is_requested_as_the_page_wrote_it(written: str) -> None:
    url = f"https://x.test/list{written}"
    assert page(f'<a href="{url}#part">x', "https://x.test/").links() == [url]
    assert page("", "https://x.test/").follow([url])[0].payload["url"] == url


def test_links_are_absolute_and_name_each_page_once() -> None:
    html = """<a href="2">x<a href="/list/2?utm_source=mail#top">y<a href="?b=2&a=1">z<a href=" /tab\n">t<a name=no>
        <a href="?a=1&utm_medium=mail&b=2"><a href="https://A.ORG/list/%32#x"><a href="3?gclid=1">"""
    assert page(html, "https://a.org/list/1").links() == [
        "https://a.org/list/2",
        "https://a.org/list/1?b=2&a=1",
        "https://a.org/tab",
        "https://a.org/list/3",
    ]


def test_links_without_an_address_as_in_drawings_are_left_out() -> None:
    html = "<svg><a xlink:href='/x'><text>t</text></a><a>no</a></svg><a href>e</a><a href='/y'>y</a><a name=z>"
    assert page(html).links() == ["https://a.org/y"]


def test_links_are_relative_to_the_base_of_the_page() -> None:
    assert page("<base href='/shop/'><a href=1>").links() == ["https://a.org/shop/1"]
    assert page("<base href='https://b.org/'><a href=1>").links(same_host=False) == ["https://b.org/1"]


def test_links_stay_on_the_host_unless_asked() -> None:
    html = "<a href=//b.org/1><a href=/2><a href=http://a.org:81/3>"
    assert page(html).links() == ["https://a.org/2"]
    assert page(html).links(same_host=False) == ["https://b.org/1", "https://a.org/2", "http://a.org:81/3"]


@pytest.mark.parametrize(
    "href", ["mailto:a@a.org", "javascript:void(0)", "tel:1", "ftp://a.org/", "http://", "http://[::1/", "data:,x"]
)
def test_what_leads_to_no_page_is_no_link(href: str) -> None:
    assert page(f'<a href="{href}">').links(same_host=False) == []


def test_links_are_chosen_by_patterns() -> None:
    html = "<a href=/item/1><a href=/item/2/reviews><a href=/about>"
    assert page(html).links(allow="/item/") == ["https://a.org/item/1", "https://a.org/item/2/reviews"]
    assert page(html).links(allow=[r"/item/\d+$", re.compile("about")]) == [
        "https://a.org/item/1",
        "https://a.org/about",
    ]
    assert page(html).links(deny=("reviews", "about")) == ["https://a.org/item/1"]


def test_links_to_files_are_left_out_unless_asked() -> None:
    html = "<a href=/a.PDF><a href=/b.jpg?x=1><a href=/c.html><a href=/v1.2/>"
    assert page(html).links() == ["https://a.org/c.html", "https://a.org/v1.2/"]
    assert "https://a.org/a.PDF" in page(html).links(files=True)


def test_links_that_robots_may_not_follow_are_left_out_unless_asked() -> None:
    assert page("<a rel='NoFollow ugc' href=/1><a href=/2>").links() == ["https://a.org/2"]
    assert page("<a rel=nofollow href=/1>").links(nofollow=True) == ["https://a.org/1"]
    assert page("<meta name=ROBOTS content='noindex, nofollow'><a href=/1>").links() == []
    assert page("<meta name=robots content=noindex><a href=/1>").links() == ["https://a.org/1"]


def test_a_selector_takes_the_links_inside_its_elements() -> None:
    html = "<nav><a href=/no></nav><div class=card><h2><a href=/1></a></h2></div><a class=card href=/2>"
    assert page(html).links(".card") == ["https://a.org/1", "https://a.org/2"]


def test_followed_links_become_jobs_of_the_kind_at_hand() -> None:
    @handler("listing")
    async def listing(url: str, kit):  # type: ignore[no-untyped-def]
        found = await kit.http.get(url)
        return found.follow("a.item", "item", payload={"shop": 7}) + found.follow("a.next")

    html = "<a class=item href=/1><a class=item href=/2><a class=next href=?page=2>"
    outcome = run_handler(listing, {"url": "https://a.org/"}, http={"https://a.org/": html})
    assert [(job.kind, job.payload) for job in outcome.jobs] == [  # type: ignore[union-attr]
        ("item", {"shop": 7, "url": "https://a.org/1"}),
        ("item", {"shop": 7, "url": "https://a.org/2"}),
        ("listing", {"url": "https://a.org/?page=2"}),
    ]


def test_given_urls_are_followed_too() -> None:
    jobs = page("").follow(["/1", "report.pdf", "https://b.org/"], "file")
    assert [job.payload["url"] for job in jobs] == ["https://a.org/1", "https://a.org/report.pdf"]
    with pytest.raises(ProcessingError, match="is a link to no web page"):
        page("").follow(["mailto:a@a.org"])


def test_a_page_can_be_sent_to_another_process_after_it_was_read() -> None:
    shop = page("<h1>x</h1>")
    shop.css("h1")
    assert pickle.loads(pickle.dumps(shop)) == shop


def test_reading_no_html_loads_no_parser() -> None:
    import subprocess

    code = "import sys, longshore.scrape.http.client; sys.exit('selectolax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


DEEP: dict[str, Callable[[int], str]] = {
    "divs": lambda n: "<div>" * n,
    "closed by others": lambda n: "<div></span>" * n,
    "lists": lambda n: "<ul><li>" * n,
    "spans": lambda n: "<span>" * n + "<div></div>" * n,
    "cells in a drawing": lambda n: "<svg>" + "<g><td>" * n,
    "attributes": lambda n: "<a " + " ".join(f"x{i}" for i in range(n)),
}


@pytest.mark.parametrize("shape", DEEP)
def test_a_page_that_would_take_minutes_to_parse_is_refused_at_once(shape: str) -> None:
    with pytest.raises(ProcessingError, match=r"too long|attributes"):
        page(DEEP[shape](200_000)).css("a")


def test_a_long_sloppy_page_is_read() -> None:
    html = "<p><font color=red>x<br>" * 2_000 + "<td>" * 50_000 + "<div><b>x</b></div>" * 50_000
    assert len(page(html).css("div")) == 50_000
    assert page("<img src='data:image/png;base64," + "A" * 300_000 + "'>").css_first("img") is not None
