"""Files in requests, and logins by digest, with both transports."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from email import message_from_bytes
from email.message import Message
from typing import Literal

import pytest
from aiohttp import web
from tests.scrape.scripted_site import Answer, Asked, ScriptedSite

from longshore.errors import ValidationError
from longshore.scrape.http import digest
from longshore.scrape.http.client import Http, StatusError
from longshore.scrape.http.request import File, make_request

TransportName = Literal["aiohttp", "curl"]
both_transports = pytest.mark.parametrize("transport", ["aiohttp", "curl"])


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


def parts_of(asked: Asked) -> list[tuple[str, str | None, str, bytes]]:
    """Return name, file name, media type and content of each part of a multipart body."""
    head = f"Content-Type: {asked.headers['Content-Type']}\r\n\r\n".encode()
    parts = message_from_bytes(head + asked.body).get_payload()
    assert isinstance(parts, list)
    found = []
    for part in parts:
        assert isinstance(part, Message)
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        name = part.get_param("name", header="Content-Disposition")
        found.append((str(name), part.get_filename(), part.get_content_type(), content))
    return found


@both_transports
async def test_files_are_sent_with_the_fields_of_a_form(site: ScriptedSite, transport: TransportName) -> None:
    http = Http(transport=transport, robots=False)
    files: dict[str, File | list[File]] = {
        "scan": ("scan.pdf", b"%PDF\x00\xff"),
        "notes": [("a.txt", "grüße"), ("b.bin", b"b", "application/x-own")],
        "bare": b"bytes",
    }
    await http.post(f"{site.url}/up", data={"year": 2026, "tag": ["x", "y"]}, files=files)
    await http.close()
    (asked,) = site.asked("/up")
    assert parts_of(asked) == [
        ("year", None, "text/plain", b"2026"),
        ("tag", None, "text/plain", b"x"),
        ("tag", None, "text/plain", b"y"),
        ("scan", "scan.pdf", "application/pdf", b"%PDF\x00\xff"),
        ("notes", "a.txt", "text/plain", "grüße".encode()),
        ("notes", "b.bin", "application/x-own", b"b"),
        ("bare", "bare", "application/octet-stream", b"bytes"),
    ]


def test_the_same_files_make_the_same_body() -> None:
    one, same = (make_request("POST", "http://x.test/", files={"a": b"1"}) for _ in range(2))
    assert one == same
    assert one != make_request("POST", "http://x.test/", files={"a": b"2"})


def test_a_name_cannot_end_its_header() -> None:
    request = make_request("POST", "http://x.test/", files={'a"\r\nX: y': ('b"\r\n\r\nc', b"1")})
    assert request.body is not None
    assert b'name="a%22%0D%0AX: y"; filename="b%22%0D%0A%0D%0Ac"' in request.body
    with pytest.raises(ValidationError, match="media type"):
        make_request("POST", "http://x.test/", files={"a": ("b", b"1", "text/plain\r\nX: y")})


def test_files_go_with_no_other_body() -> None:
    with pytest.raises(ValidationError, match="one body"):
        make_request("POST", "http://x.test/", files={"a": b"1"}, json={})
    with pytest.raises(ValidationError, match="one body"):
        make_request("POST", "http://x.test/", files={"a": b"1"}, data=b"raw")


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_the_digest_is_that_of_the_examples_in_the_standard(algorithm: str, expected: str) -> None:
    challenge = {
        "realm": "http-auth@example.org",
        "qop": "auth, auth-int",
        "algorithm": algorithm,
        "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
    }
    login, cnonce = ("Mufasa", "Circle of Life"), "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
    sent = digest._authorization(challenge, login, "GET", "/dir/index.html", cnonce)
    assert f'response="{expected}"' in sent


class Guarded:
    """A page that wants a digest of ann's password."""

    def __init__(self, *challenges: str) -> None:
        self._challenges = challenges

    def __call__(self, request: web.Request) -> Answer:
        sent = dict(re.findall(r'(\w+)="?([^",]+)"?', request.headers.get("Authorization", "")))
        if sent:
            make = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}[sent.get("algorithm", "MD5")]

            def digest_of(*values: str) -> str:
                return make(":".join(values).encode()).hexdigest()

            secret = digest_of("ann", "the vault", "pw:1")
            asked = digest_of(request.method, request.raw_path)
            middle = [sent["nc"], sent["cnonce"], sent["qop"]] if "qop" in sent else []
            if sent["response"] == digest_of(secret, "n0nce", *middle, asked) and sent["uri"] == request.raw_path:
                return Answer(f"hello {sent['username']} by {sent.get('algorithm', 'MD5')}")
        return Answer(status=401, headers={"WWW-Authenticate": ", ".join(self._challenges)})


MD5 = 'Digest realm="the vault", nonce="n0nce", qop="auth", opaque="o"'
OLD = 'Digest realm="the vault", nonce="n0nce"'
SHA = 'Digest realm="the vault", nonce="n0nce", qop="auth,auth-int", algorithm=SHA-256'


@both_transports
@pytest.mark.parametrize(
    ("challenges", "how"),
    [([MD5], "MD5"), ([OLD], "MD5"), ([MD5, SHA], "SHA-256"), (['Basic realm="x"', MD5], "MD5")],
)
async def test_a_site_that_asks_for_a_digest_gets_it(
    site: ScriptedSite, transport: TransportName, challenges: list[str], how: str
) -> None:
    site.script["/vault"] = Guarded(*challenges)
    site.script["/door"] = [Answer(status=302, headers={"Location": "/vault?a=b c"})]
    http = Http(transport=transport, robots=False, retries=0)
    for path in ("/vault", "/vault?q=%C3%BC", "/door"):
        assert (await http.get(f"{site.url}{path}", digest_auth=("ann", "pw:1"))).text == f"hello ann by {how}"
    with pytest.raises(StatusError, match="401"):
        await http.get(f"{site.url}/vault", digest_auth=("ann", "wrong"))
    await http.close()
    assert "Authorization" not in site.requests[0].headers, "only after the site has asked"


@both_transports
async def test_the_login_goes_to_no_other_site(site: ScriptedSite, transport: TransportName) -> None:
    site.script["/vault"] = Guarded(MD5)
    async with ScriptedSite().running() as other:
        other.script["/door"] = [Answer(status=302, headers={"Location": f"{site.url}/vault"})]
        http = Http(transport=transport, robots=False, retries=0, private_hosts=("127.0.0.1",))
        with pytest.raises(StatusError, match="401"):
            await http.get(f"{other.url}/door", digest_auth=("ann", "pw:1"))
        await http.close()
    assert [request.headers.get("Authorization") for request in site.requests] == [None]
