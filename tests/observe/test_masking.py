"""What counts as a secret."""

from __future__ import annotations

import pytest

from longshore.observe.masking import is_secret_name, mask, mask_text


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "api_key", "X-Api-Key", "authorization", "access_token"])
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["tokens", "passage", "key", "secretary", "url", "max_tokens"])
def test_names_that_only_look_alike_are_not(name: str) -> None:
    assert not is_secret_name(name)


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
    assert mask(value) == {"a": [{"token": "***", "n": 1}], "b": ["https://u:***@h/"], "secret": None}
