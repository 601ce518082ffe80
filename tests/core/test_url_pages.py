"""Keys of URLs by the rules of browsers (the WHATWG URL standard): two different pages never share a key.

Each row has several spellings of one page. The cases are our own, one or more for each rule of the standard's parser.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from longshore.url import canonical_url, clean_url, host_of, url_key

# Spellings that a browser opens as the same page; the first one is how it serializes the page.
SAME = [
    # white space and control characters around, tabs and line ends inside
    ["http://x.test/y.html", " http://x.test/y.html", "http://x.test/y.html \n", "\x1fhttp://x.test/y.h\ttml\x00"],
    # the fragment, scheme and host in other letters, the default port, an empty port
    ["http://x.test/", "http://x.test", "HTTP://X.TEST/#top", "http://x.test:80/", "http://x.test:/"],
    ["https://x.test/", "https://x.test:443", "https://x.test/#?a=b"],
    # dot segments, encoded ones too
    ["http://x.test/b", "http://x.test/a/../b", "http://x.test/./b", "http://x.test/%2e%2E/b", "http://x.test/../b"],
    ["http://x.test/a/", "http://x.test/a/.", "http://x.test/a/b/.."],
    # a name in other letters
    ["http://xn--bcher-kva.test/", "http://bücher.test/", "http://BÜCHER.test/", "http://b\u0075\u0308cher.test/"],
    ["http://xn--strae-oqa.test/", "http://straße.test/"],
    ["http://[::1]/", "http://[0:0:0:0:0:0:0:1]/"],
    # characters that are encoded on the way
    ["http://x.test/gr%C3%BC%C3%9Fe", "http://x.test/grüße"],
    ["http://x.test/a%20b", "http://x.test/a b"],
    ["http://x.test/?q=a%20b", "http://x.test/?q=a b"],
]
# Pages that have only one spelling here.
ALONE = [
    # white space beyond ASCII is part of the URL
    "http://x.test/y.html\u00a0",
    "http://x.test/y.html%20",
    "http://x.test/y.html\u3000",
    "http://x.test/y.html?",
    "http://x.test/y.html%3F",
    "http://x.test/%20",
    "http://x.test/\u00a0?gclid=1",
    "https://x.test/y.html",
    "http://x.test:8080/y.html",
    "http://x.test:443/y.html",
    "http://www.x.test/y.html",
    "http://x.test./y.html",
    "http://me@x.test/y.html",
    "http://me:pw@x.test/y.html",
    "http://me:PW@x.test/y.html",
    "http://x.test/Y.html",
    "http://x.test/y.html/",
    "http://x.test//y.html",
    "http://x.test/a%2Fy.html",
    "http://x.test/a/y.html",
    "http://x.test/a%5Cy.html",
    "http://x.test/y.html;v=1",
    "http://x.test/y.html%3Bv=1",
    "http://x.test/...",
    "http://x.test/100%25",
    "http://x.test/100%2525",
    # queries that are not UTF-8: GBK, Shift_JIS, Latin-1, and bytes of no encoding
    "http://x.test/?q=%C4%E3",
    "http://x.test/?q=%BA%C3",
    "http://x.test/?q=%83%58",
    "http://x.test/?q=%E9",
    "http://x.test/?q=%EF%BF%BD",
    "http://x.test/?q=%FF%FE&p=1",
    "http://x.test/?q=%FE%FF&p=1",
    "http://x.test/?q=a",
    "http://x.test/?q=a&q=a",
    "http://x.test/?q=a%26p=1",
    "http://x.test/?q=a%2Bb",
    "http://x.test/?q=a;p=1",
    "http://x.test/caf%E9",
    "http://x.test/caf%C3%A9",
    # hosts
    "http://strasse.test/",
    "http://bucher.test/",
    "http://10.0.0.1/",
    "http://[::2]/",
    # other schemes are opaque: neither their path nor their query is like a page's
    "sc:/pa",
    "sc:///pa",
    "sc://pa",
    "sc:pa",
    "sc://pa?b&a",
    "sc://pa?a&b",
    "file:///C:/a",
    "file:///C%3A/a",
    "file://host/a",
    "file:////host/a",
    "s3://bucket/a/../b",
    "s3://bucket/b",
    "urn:isbn:1",
    "urn:ISBN:1",
]
PAGES = [*SAME, *([url] for url in ALONE)]


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_what_a_browser_opens_as_one_page_has_one_key(spellings: list[str]) -> None:
    assert len({url_key(url) for url in spellings}) == 1


def test_two_different_pages_never_have_one_key() -> None:
    for one, another in combinations(PAGES, 2):
        merged = {url_key(url) for url in one} & {url_key(url) for url in another}
        assert not merged, f"{one[0]!r} and {another[0]!r} are different pages"


# Parts of URLs that a browser keeps apart, in its own spelling. Every combination is a page of its own.
SCHEMES = ("http", "https", "ftp", "sc")
USERS = ("", "me@", "me:pw@", "me:p%40@", ":pw@", "%E9@", "%C3%A9@", "%FF@", "%EF%BF%BD@", "me%3Apw@", "me:%FF@")
HOSTS = ("x.test", "www.x.test", "x.test.", "x--y.test", "x_y.test", "192.0.2.1", "[2001:db8::1]", "xn--bcher-kva.test")
PORTS = ("", ":8080", ":81")
PATHS = (
    *(
        "/",
        "//",
        "/a",
        "/a/",
        "/A",
        "/a//",
        "/a%2Fb",
        "/a/b",
        "/a%5Cb",
        "/a;b",
        "/a%3Bb",
        "/a:b",
        "/a@b",
        "/a%3Fb",
        "/a%23b",
    ),
    *(
        "/a%20",
        "/a+",
        "/a%2B",
        "/a%00",
        "/%E9",
        "/%C3%A9",
        "/%FF",
        "/%EF%BF%BD",
        "/a%",
        "/a%2",
        "/a%25",
        "/a%zz",
        "/...",
        "/a=b",
    ),
)
QUERIES = (
    *(
        "",
        "?",
        "?a=",
        "?a=b",
        "?a=B",
        "?a=b&a=b",
        "?a=b&a=c",
        "?a%3Db",
        "?a=b%26c",
        "?a=b;c",
        "?a=b+c",
        "?a=b%2Bc",
    ),
    *(
        "?a=%E9",
        "?a=%C3%A9",
        "?a=%FF",
        "?a=%EF%BF%BD",
        "?a=%25",
        "?a=/",
        "?a=?",
        "?a=%23",
        "?=b",
        "?a=b&&c=d",
    ),
    *("?a=%00", "?a='", "?a=[1]"),
)


def test_every_combination_of_different_parts_is_a_page_of_its_own() -> None:
    """A part is combined with every other part of its neighbours, and with a few of all others."""
    pages = {f"http://x.test{path}{query}" for path in PATHS for query in QUERIES}
    pages |= {
        f"{scheme}://{user}{host}{port}/a" for scheme in SCHEMES for user in USERS for host in HOSTS for port in PORTS
    }
    pages |= {f"https://x.test{port}{path}?a=%FF" for port in PORTS for path in PATHS}
    by_key: dict[str, list[str]] = {}
    for page in sorted(pages):
        by_key.setdefault(url_key(page), []).append(page)
    merged = [same for same in by_key.values() if len(same) > 1]
    assert not merged
    assert len(by_key) > 1_300


@pytest.mark.parametrize("tracked", ["utm_source=x", "gclid=%FF", "utm%5Fmedium=mail"])
def test_a_tracking_parameter_beside_it_changes_no_page(tracked: str) -> None:
    for (url, *_), end in ((page, "?" if "?" not in page[0] else "&") for page in PAGES if "http" in page[0][:4]):
        bare = url.removesuffix("?")
        assert canonical_url(f"{bare}{end if bare == url else '?'}{tracked}") == canonical_url(bare), url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://x.test/a", "https://x.test/a"),
        ("\n  https://x.test/a\t ", "https://x.test/a"),
        ("https://x.test/a\r\n  b", "https://x.test/a  b"),
        ("https://x.test/a\u00a0", "https://x.test/a\u00a0"),
        ("\u2003https://x.test/a", "\u2003https://x.test/a"),
        ("", ""),
    ],
)
def test_only_ascii_white_space_around_a_url_is_dropped(text: str, url: str) -> None:
    assert clean_url(text) == url


def test_the_host_is_found_behind_white_space() -> None:
    assert host_of(" \x00https://x.test/ ") == "x.test"
