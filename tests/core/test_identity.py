"""What makes two jobs different: the URL, the fields that are declared, or a key."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.errors import UsageError
from longshore.job import checked_identity, derived_key, new_job
from longshore.url import url_key

SEARCH = "https://shop.example/search"


def key(payload: dict[str, Any], *identity: str) -> str:
    return new_job("search", payload, identity=identity or None).key


def test_by_default_the_url_alone_counts() -> None:
    assert key({"url": SEARCH, "page": 1}) == key({"url": SEARCH, "page": 2}) == url_key(SEARCH)


def test_the_declared_fields_count_and_no_others() -> None:
    first = key({"url": SEARCH, "page": 1, "found_on": "a"}, "url", "page")
    assert first == key({"url": SEARCH, "page": 1, "found_on": "b"}, "url", "page")
    assert first != key({"url": SEARCH, "page": 2, "found_on": "a"}, "url", "page")
    assert first == key({"page": 1, "url": SEARCH}, "page", "url")


def test_spellings_of_a_url_are_one_url_in_every_identity() -> None:
    same = {"url": "HTTPS://shop.example:443/search?utm_source=x#top", "page": 1}
    assert key(same, "url", "page") == key({"url": SEARCH, "page": 1}, "url", "page")


def test_the_identity_url_gives_the_key_that_the_default_gives() -> None:
    """So that a run goes on after the declaration was added."""
    assert key({"url": SEARCH, "page": 1}, "url") == url_key(SEARCH)
    assert key({"url": SEARCH}, "url", "page") == url_key(SEARCH)


def test_an_identity_needs_no_url() -> None:
    assert key({"id": 7, "seen": 1}, "id") == key({"id": 7, "seen": 2}, "id")
    assert key({"id": 7}, "id") != key({"id": "7"}, "id")
    assert key({"id": None}, "id") != key({"id": 0}, "id")


def test_a_key_overrides_the_identity() -> None:
    assert new_job("search", {"url": SEARCH}, key="mine", identity=("url",)).key == "mine"


def test_a_job_knows_whether_its_key_is_only_the_default() -> None:
    assert new_job("search", {"url": SEARCH}).default_key
    assert new_job("search", {"id": 1}).default_key
    assert not new_job("search", {"url": SEARCH}, identity=("url",)).default_key
    assert not new_job("search", {"url": SEARCH}, key="mine").default_key


def test_a_payload_without_any_of_the_fields_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"none of the fields that make it different \(url, page\)"):
        derived_key({"id": 1}, ("url", "page"))


@pytest.mark.parametrize("wrong", ["url", (), ("",), (1,), None, {"url": 1}])
def test_an_identity_that_names_no_fields_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"payload field"):
        checked_identity(wrong)
