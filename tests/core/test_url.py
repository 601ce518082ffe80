"""Canonical URLs: one spelling for what is certainly the same page, and two for what may not be."""

from __future__ import annotations

import hashlib
import re
import string

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from longshore import url as url_module
from longshore.url import canonical_url, host_of, mask_url, mask_urls, url_key

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
    fast = canonical_url(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(url_module, "_ALREADY_CANONICAL", NEVER)
        assert canonical_url(url) == fast


@given(
    st.sampled_from(["http://", "https://", "ftp://", "HTTP://", "http:/", " http://"]),
    st.text(st.sampled_from("ab.-_19@:[]%ß \t\n\\"), max_size=8),
    st.from_regex(r"(:[0-9]{0,6})?", fullmatch=True),
    st.text(st.sampled_from("/?#:@\n ab"), max_size=6),
)
@example("http://", "a.b", ":80", "/")
@example("https://", "a.b", ":0443", "?x")
@example("http://", "a.b", ":65536", "")
@example("http://", "a.b", ":0", "#")
@example("http://", "a.b", ":80", "@c/")
@example("http://", "a.b", "", "\n.c/")
@settings(deadline=None, max_examples=300)
def test_a_host_that_needs_no_parsing_is_the_one_that_parsing_finds(
    scheme: str, name: str, port: str, rest: str
) -> None:
    url = f"{scheme}{name}{port}{rest}"
    fast = host_of(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(url_module, "_PLAIN_HOST", NEVER)
        assert host_of(url) == fast


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
        ("postgresql://me:se/cret@db.test/jobs", "postgresql://me:***@db.test/jobs"),
        ("postgresql://me:12/secret@db.test/jobs", "postgresql://me:***@db.test/jobs"),
        ("postgresql:///me:secret@db.test/jobs", "postgresql://***@db.test/jobs"),
        ("strange://me:se/cret@db.test/jobs", "strange://me:***@db.test/jobs"),
        ("postgresql:/me:secret@db.test/jobs", "postgresql:/***@db.test/jobs"),
        ("postgresql:me:secret@db.test/jobs", "postgresql:***@db.test/jobs"),
        ("postgres//me:secret@db.test/jobs", "postgres//***@db.test/jobs"),
        ("dir://postgres/me:secret@db.test/jobs", "dir://postgres/me:***@db.test/jobs"),
        ("//me:secret@db.test/jobs", "***@db.test/jobs"),
        ("me:secret@git.test:q.git", "me:***@git.test:q.git"),
        ("git+https://tok/en@git.test/q.git", "git+https://***@git.test/q.git"),
        ("https://tok/en@git.test/q.git", "https://***@git.test/q.git"),
        ("https://me:se/cret@proxy.test:8080", "https://me:***@proxy.test:8080"),
        ("https://token:x-oauth-basic@git.test/q.git", "https://***@git.test/q.git"),
        ("https://token:@git.test/q", "https://***@git.test/q"),
        ("postgresql://se/cret@db.test/jobs", "postgresql://***@db.test/jobs"),
        ("postgresql://se@cret@db.test/jobs", "postgresql://***@db.test/jobs"),
        ("postgresql://db.test/jobs?user=me@corp&password=secret", "postgresql://***@corp&password=***"),
        ("postgresql://db.test/jobs?password=se@cret", "postgresql://***"),
    ],
)
def test_a_password_is_never_shown_however_the_url_is_mistyped(url: str, masked: str) -> None:
    assert mask_url(url) == masked
    assert mask_url(masked) == masked


@pytest.mark.parametrize(
    "url",
    [
        "https://medium.com/@user/post",
        "https://medium.com:443/@user/post",
        "http://localhost:8080/@user",
        "http://[::1]:8080/@user",
        "https://x.test/?mail=me@x.test",
        "https://x.test:8080/a",
        "sqlite:///queue.db",
        "sqlite:////home/me@corp/queue.db",
        "/home/me@corp/queue",
        "./me@corp",
        "git@git.test:team/q.git",
        "git+ssh://git@git.test/team/q.git",
        "git+ssh://anna@git.test/team/q.git",
        "ssh://anna@git.test/team/q.git",
        "postgresql://anna@db.test/jobs?schema=mine",
        "Postgres://anna@db.test:5432/jobs",
        "me@laptop",
        r"C:\queue",
    ],
)
def test_what_has_no_password_stays_readable(url: str) -> None:
    assert mask_url(url) == url
    assert mask_urls(url) == url


SHAPES = [
    "postgresql://{user}:{password}@h/db",
    "postgresql:///{user}:{password}@h/db",
    "strange://{user}:{password}@h/db?x=1",
    "git+https://{user}:{password}@h/q.git",
    "git+https://{password}@h/q.git",
    "git+https://{password}/x@h/q.git",
    "https://{user}:{password}@h/q.git",
    "https://{password}@h/q.git",
    "postgresql:/{user}:{password}@h/db",
    "postgresql:{user}:{password}@h/db",
    "postgres//{user}:{password}@h/db",
    "{user}:{password}@h:q.git",
    "//{user}:{password}@h/db",
]
typed = st.text(st.sampled_from("/:@#?& =%'+.-éß漢0aZ") | st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)


@given(st.sampled_from(SHAPES), typed, typed.filter(lambda password: len(password) >= 4))
@example(SHAPES[0], "u", "pa/S3cr3t")
@example(SHAPES[0], "u", "S3cr3t a://")
@example(SHAPES[0], "u", "a?token=b@c")
@example(SHAPES[11], "u", "//S3cr3t:x")
@example(SHAPES[11], "user", "/S3cr3t:x")
@settings(deadline=None, max_examples=500)
def test_no_password_of_any_text_is_in_what_is_shown(shape: str, user: str, password: str) -> None:
    assume(password not in shape.format(user=user, password="***"))
    assert password not in mask_url(shape.format(user=user, password=password))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("'postgresql://u:p w@h/db', then git+ssh://git@h/a.git: ask a@b", None),
        ('["https://u:pp@h/x", "https://v:qq@h"]', '["https://u:***@h/x", "https://v:***@h"]'),
        ("https://h:80/a went to https://u:p/p@h/b", "https://h:80/a went to https://u:***@h/b"),
        ("GET http://h:8080/x failed: ask a@b", "GET http://h:8080/x failed: ask a@b"),
        ("Timeout: tell a@b", "Timeout: tell a@b"),
    ],
)
def test_in_a_text_every_url_is_masked_and_the_rest_is_kept(text: str, masked: str | None) -> None:
    assert mask_urls(text) == (masked or text.replace("p w", "***"))


@pytest.mark.parametrize(
    ("name", "ascii_name"),
    [
        ("münchen.de", "xn--mnchen-3ya.de"),
        ("MÜNCHEN.de", "xn--mnchen-3ya.de"),
        # Since 2010 sites of their own, and fetched as such: as keys they were those of strasse.de and fass.org.
        ("straße.de", "xn--strae-oqa.de"),
        ("Faß.org", "xn--fa-hia.org"),
    ],
)
def test_a_host_in_other_letters_is_the_one_that_name_servers_know(name: str, ascii_name: str) -> None:
    assert canonical_url(f"https://{name}/x") == f"https://{ascii_name}/x"
    assert canonical_url(f"https://ann:pw@{name}:81/x") == f"https://ann:pw@{ascii_name}:81/x"
    assert host_of(f"https://{name}:81/x") == host_of(f"https://{ascii_name}:81/x") == f"{ascii_name}:81"


def test_any_text_has_a_key() -> None:
    assert url_key("https://a.org/\ud800") != url_key("https://a.org/\ud801")


def test_what_names_no_host_is_its_own_only_spelling() -> None:
    assert canonical_url("https:///\\f=b?a=%20F") == canonical_url(canonical_url("https:///\\f=b?a=%20F"))
