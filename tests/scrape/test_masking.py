"""Captured data has no secrets; other values stay."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.masking import is_secret, mask_address, mask_text, mask_value
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.masking import mask_body, mask_exchange, mask_headers

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"


SECRET = """password passwd db_password Authorization X-Api-Key apikey api_key access_token accessToken refreshToken
client_secret sessionid session_id PHPSESSID csrf_token sig signature jwt Cookie Set-Cookie Proxy-Authorization
user[password] LONGSHORE_API_KEY"""
PLAIN = "tokens author passenger page key design signal path Content-Type sidebar residual"


@pytest.mark.parametrize("name", SECRET.split())
def test_what_is_named_like_a_secret_is_one(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", PLAIN.split())
def test_what_is_not_named_like_a_secret_is_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://ann:geheim@a.org/x", "https://ann:***@a.org/x"),
        ("https://a.org/?q=1&access_token=geheim&p=2", "https://a.org/?q=1&access_token=***&p=2"),
        ("https://a.org/?sig=geheim#top", "https://a.org/?sig=***#top"),
        (f"https://a.org/{JWT}/x", "https://a.org/***/x"),
        ("https://a.org/?id=0123456789abcdef0123456789abcdef", "https://a.org/?id=0123456789abcdef0123456789abcdef"),
        ("https://a.org/login?next=/x", "https://a.org/login?next=/x"),
    ],
)
def test_a_url_loses_its_secrets_once_and_for_all(url: str, masked: str) -> None:
    assert mask_address(url) == masked
    assert mask_address(masked) == masked


def test_headers_keep_their_names_and_lose_what_they_prove() -> None:
    headers = {"Authorization": "Bearer geheim", "cookie": "a=geheim", "X-Auth-Token": "geheim", "Accept": "text/html"}
    assert mask_headers(headers) == {
        "Authorization": "***",
        "cookie": "***",
        "X-Auth-Token": "***",
        "Accept": "text/html",
    }


@pytest.mark.parametrize(
    ("body", "masked"),
    [
        (b"", b""),
        (b"user=ann&password=geheim", b"user=ann&password=%2A%2A%2A"),
        (b'{"user":"ann","auth":{"password":"geheim"}}', b'{"user":"ann","auth":"***"}'),
        (b'{"user":"ann","list":[{"token":"geheim"}]}', b'{"user":"ann","list":[{"token":"***"}]}'),
        (b"\xff\xfe\x00geheim", b"\xff\xfe\x00geheim"),
        (b"plain text, token: geheim", b"plain text, token: ***"),
        (
            b'--b\r\nContent-Disposition: form-data; name="password"\r\n\r\ngeheim\r\n--b--',
            b'--b\r\nContent-Disposition: form-data; name="password"\r\n\r\n***\r\n--b--',
        ),
    ],
)
def test_what_was_sent_loses_its_secret_fields_once_and_for_all(body: bytes, masked: bytes) -> None:
    assert mask_body(body) == masked
    assert mask_body(masked) == masked


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"url": "https://ann:geheim@a.org/?a=1"}, {"url": "https://ann:***@a.org/?a=1"}),
        ({"deep": [{"api_key": "geheim", "n": 1}]}, {"deep": [{"api_key": "***", "n": 1}]}),
        ({"password": "", "token": None, "n": 1.5}, {"password": "", "token": None, "n": 1.5}),
    ],
)
def test_a_payload_loses_its_secrets_however_deep(value: Any, masked: Any) -> None:
    assert mask_value(value) == masked


def test_nothing_secret_is_left_of_an_exchange_but_the_page() -> None:
    shown = mask_exchange(
        Exchange(
            method="POST",
            url="https://ann:geheim@a.org/?token=geheim",
            final_url="https://a.org/?session_id=geheim",
            request_headers={"Authorization": "geheim", "Referer": "https://a.org/?token=geheim"},
            request_body=b"password=geheim",
            status=200,
            headers={"Set-Cookie": "sid=geheim"},
            body=b"the page",
            error="https://ann:geheim@a.org did not answer",
            identity="http://ann:geheim@10.0.0.1:80",
        )
    )
    assert "geheim" not in repr(shown)
    assert shown.body == b"the page"


@pytest.mark.parametrize("name", ["x-rapidapi-key", "Ocp-Apim-Subscription-Key", "X-Session", "Cookie2"])
def test_headers_that_end_like_a_key_are_masked(name: str) -> None:
    assert mask_headers({name: "geheim"}) == {name: "***"}


@pytest.mark.parametrize(
    "text",
    [
        "password='two words geheim'",
        '{"token": "a geheim"}',
        "Cookie: a=1; b=geheim",
        "Set-Cookie: a=geheim; Path=/",
        "Authorization: Token geheim",
    ],
)
def test_a_text_loses_whole_values(text: str) -> None:
    assert "geheim" not in mask_text(text)
    assert mask_text(mask_text(text)) == mask_text(text)
