"""Secrets are masked in text and values, and by `Failure.of` before they are stored."""

from __future__ import annotations

import pytest

from longshore.errors import Failure
from longshore.masking import is_secret, mask_text, mask_value


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "api_key", "X-Api-Key", "authorization", "access_token"])
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["tokens", "passage", "key", "secretary", "url", "max_tokens"])
def test_names_that_only_look_alike_are_not(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://u:p@h/x", "https://u:***@h/x"),
        ("password=abc next", "password=*** next"),
        ('{"token": "abc", "n": 1}', '{"token": "***", "n": 1}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("the password was wrong", "the password was wrong"),
    ],
)
def test_secrets_inside_text_are_masked_and_the_rest_is_kept(text: str, masked: str) -> None:
    assert mask_text(text) == masked


def test_secrets_deep_inside_values_are_masked() -> None:
    value = {"a": [{"token": "abc", "n": 1}], "b": ("https://u:p@h/",), "secret": None}
    assert mask_value(value) == {"a": [{"token": "***", "n": 1}], "b": ["https://u:***@h/"], "secret": None}


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEgeheim\n-----END RSA PRIVATE KEY-----"
TEXTS = [
    "PGPASSWORD=geheim psql",
    "Cookie: sid=geheim; other=geheim",
    "Set-Cookie: sid=geheim",
    "x-amz-signature=geheim",
    "the token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.geheim was refused",
    "sessionid=geheim",
    "https://h/p?access_token=geheim&x=1",
    "Authorization: Bearer geheim.geheim",
    'Authorization: Digest username="me", response="geheim"',
    "{'password': 'ge heim geheim'}",
    "auth=('me', 'geheim')",
    "ProxyError('socks5://me:geheim@10.0.0.1:1080')",
    "no proxy 1.2.3.4:8080:user:geheim answers",
    "proxy.example.com:8080:user-7:geheim",
    "X-Api-Key: geheim",
    '{"Authorization": "Basic geheim", "n": 1}',
    "data=token=geheim",
    KEY,
]


@pytest.mark.parametrize("text", TEXTS)
def test_no_secret_of_an_error_is_stored(text: str) -> None:
    failure = Failure.of(RuntimeError(text))
    assert "geheim" not in failure.message + failure.traceback
    assert mask_text(failure.message) == failure.message


def test_a_secret_whose_name_is_cut_off_is_masked_before() -> None:
    failure = Failure.of(RuntimeError("password=" + "geheim" * 1000 + " and more" * 800))
    assert "geheim" not in failure.message


@pytest.mark.parametrize(
    "text",
    ["page.py:10:5:E501 line too long", "at 10:20:30:400", "fe80:1:a:b", "tokens: 12, keys: 3", "a::b", "x=1&y=2"],
)
def test_text_that_only_looks_alike_is_kept(text: str) -> None:
    assert mask_text(text) == text
