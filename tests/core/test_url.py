"""Canonical URLs: one spelling for what is certainly the same page, and two for what may not be."""

from __future__ import annotations

import hashlib
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longshore import url as url_module
from longshore.url import canonical_url, host_of, mask_url, url_key

NEVER = re.compile(r"(?!)")

labels = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
hosts = st.lists(labels, min_size=1, max_size=3).map(".".join).filter(lambda host: not host[-1].isdigit())
segments = st.text(string.ascii_letters + string.digits + "._~-", max_size=6)
paths = st.lists(segments, max_size=4).map(lambda parts: "/" + "/".join(parts))
settled_paths = paths.filter(lambda path: not {".", ".."} & set(path.split("/")))
words = st.text(string.ascii_letters + string.digits + " ü%+&=/?", max_size=6)
queries = st.lists(st.tuples(words, words), max_size=4)


@st.composite
def urls(draw: st.DrawFn) -> str:
    """URLs as people write them, well and badly."""
    scheme = draw(st.sampled_from(["http", "https", "HTTP"]))
    host = draw(hosts | hosts.map(str.upper))
    port = draw(st.sampled_from(["", ":80", ":443", ":8080"]))
    pairs = "&".join(f"{name}={value}" for name, value in draw(queries))
    fragment = draw(st.sampled_from(["", "#", "#top", "#a=b"]))
    return f"{scheme}://{host}{port}{draw(paths | st.just(''))}{'?' if pairs else ''}{pairs}{fragment}"


@given(urls())
@example("https://x.test/?utm_source=a&b=%20c")
@example("https://x.test/?b=+c&gclid=1")
@settings(deadline=None)
def test_a_canonical_url_is_its_own_canonical_form(url: str) -> None:
    once = canonical_url(url)
    assert canonical_url(once) == once


@given(st.sampled_from(["http", "https"]), hosts, paths, st.from_regex(r"(\?[\w.&=-]{0,8})?", fullmatch=True))
@example("https", "x.test", "/.", "")
@example("https", "x.test", "/a/../b", "")
@example("https", "x.test", "/a/..", "")
@example("https", "x.test", "/a/..", "?a=b")
@example("https", "x.test", "/a/...", "")
@example("https", "x.test", "//a//.b/c.", "")
@example("https", "x.test", "/", "?page=7")
@example("https", "x.test", "/", "?page=")
@example("https", "x.test", "/", "?page=..")
@example("https", "x.test", "/", "?gclid=7")
@example("https", "x.test", "/", "?utm_source=a")
@settings(deadline=None)
def test_the_fast_way_and_the_full_way_agree(scheme: str, host: str, path: str, query: str) -> None:
    url = f"{scheme}://{host}{path}{query}"
    fast = canonical_url(url), host_of(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(url_module, "_ALREADY_CANONICAL", NEVER)
        assert (canonical_url(url), host_of(url)) == fast


@given(hosts, settled_paths)
@settings(deadline=None)
def test_the_case_of_the_path_is_kept_and_that_of_the_host_is_not(host: str, path: str) -> None:
    assert canonical_url(f"HTTPS://{host.upper()}{path}?q=A") == f"https://{host}{path}?q=A"


@given(hosts, settled_paths, st.permutations(["a=1", "b=2", "c=", "a=0"]))
@settings(deadline=None)
def test_the_order_of_the_query_does_not_matter(host: str, path: str, pairs: list[str]) -> None:
    assert canonical_url(f"https://{host}{path}?{'&'.join(pairs)}") == f"https://{host}{path}?a=0&a=1&b=2&c="


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("https://x.test", "https://x.test/"),
        ("  https://x.test/a  ", "https://x.test/a"),
        ("https://x.test/a#part", "https://x.test/a"),
        ("https://x.test:443/a", "https://x.test/a"),
        ("http://x.test:80/a", "http://x.test/a"),
        ("http://x.test:443/a", "http://x.test:443/a"),
        ("https://x.test:8443/a", "https://x.test:8443/a"),
        ("https://x.test/a?utm_source=mail&id=7&fbclid=z", "https://x.test/a?id=7"),
        ("https://x.test/a?utm_source=mail", "https://x.test/a"),
        ("https://x.test/a?id=&page", "https://x.test/a?id=&page="),
        ("https://x.test/A/b", "https://x.test/A/b"),
        ("https://x.test/a/", "https://x.test/a/"),
        ("https://x.test/grüße", "https://x.test/gr%C3%BC%C3%9Fe"),
    ],
)
def test_spellings_of_one_page_become_one(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("https://x.test/a", "http://x.test/a"),
        ("https://x.test/a", "https://x.test/a/"),
        ("https://x.test/a", "https://x.test/A"),
        ("https://x.test/a", "https://www.x.test/a"),
        ("https://x.test/?a=1", "https://x.test/?a=1&a=1"),
        ("https://x.test/?session=1", "https://x.test/"),
        ("https://me:pass@x.test/", "https://ME:pass@x.test/"),
    ],
)
def test_what_may_be_another_page_stays_another(one: str, another: str) -> None:
    assert url_key(one) != url_key(another)


def test_the_key_of_a_url_is_the_digest_of_its_canonical_form() -> None:
    assert url_key("HTTPS://X.test") == hashlib.sha256(b"https://x.test/").hexdigest()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://X.Test/a", "x.test"),
        ("https://x.test:443/", "x.test"),
        ("https://x.test:8443/", "x.test:8443"),
        ("http://me:secret@x.test/", "x.test"),
        ("not a url", ""),
        ("https://x.test:port/", ""),
        ("", ""),
    ],
)
def test_the_host_is_what_politeness_is_counted_by(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://me:secret@db.test/jobs", "postgresql://me:***@db.test/jobs"),
        ("git+https://:token@git.test/x", "git+https://:***@git.test/x"),
        ("sqlite:///queue.db", "sqlite:///queue.db"),
        ("https://x.test:8080/a", "https://x.test:8080/a"),
    ],
)
def test_a_password_is_never_shown(url: str, masked: str) -> None:
    assert mask_url(url) == masked
