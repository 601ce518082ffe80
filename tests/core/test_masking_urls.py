"""What is secret in a URL is never shown."""

from __future__ import annotations

import pytest

from longshore.errors import UsageError
from longshore.job import new_job
from longshore.url import canonical_url, host_of, mask_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://anna:SECRET@db/x", "postgresql://anna:***@db/x"),
        ("postgresql://anna:SEC@RET@db/x", "postgresql://anna:***@db/x"),
        ("postgresql://anna:SEC RET@db/x", "postgresql://anna:***@db/x"),
        ("git+https://ghp_SECRET@host/o/r.git", "git+https://***@host/o/r.git"),
        ("git+ssh://git@host/o/r.git", "git+ssh://git@host/o/r.git"),
        ("https://api/x?token=SECRET&page=2", "https://api/x?token=***&page=2"),
        ("sqlite:///q.db?password=SECRET", "sqlite:///q.db?password=***"),
        ("http://127.0.0.1:8080/item/1", "http://127.0.0.1:8080/item/1"),
        ("sqlite:///here/queue.db", "sqlite:///here/queue.db"),
    ],
)
def test_secrets_are_masked_and_nothing_else(url: str, shown: str) -> None:
    assert mask_url(url) == shown


@pytest.mark.parametrize("url", ["http://h:abc/", "http://[::1", "http://[zz]/", "http://h:99999999/"])
def test_a_malformed_url_has_a_key_and_no_host_and_raises_nothing(url: str) -> None:
    assert canonical_url(url) == url
    assert host_of(url) == ""
    assert new_job("page", {"url": url}).key


@pytest.mark.parametrize("instant", [float("nan"), float("inf")])
def test_an_instant_that_never_comes_is_refused(instant: float) -> None:
    with pytest.raises(UsageError, match="not_before must be an instant"):
        new_job("page", {}, not_before=instant)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.org/?PHPSESSID=geheim&a=1", "https://a.org/?PHPSESSID=***&a=1"),
        ("https://a.org/?X-Amz-Signature=geheim#top", "https://a.org/?X-Amz-Signature=***#top"),
        ("https://a.org/x;jsessionid=geheim?page=2", "https://a.org/x;jsessionid=***?page=2"),
        ("https://a.org/#access_token=geheim", "https://a.org/#access_token=***"),
        (f"https://a.org/v3/search?q=x&key=AIza{'x' * 35}", "https://a.org/v3/search?q=x&key=***"),
        ("https://a.org/?sid=&author=ann", "https://a.org/?sid=&author=ann"),
    ],
)
def test_sessions_signatures_and_known_keys_are_not_shown(url: str, shown: str) -> None:
    assert mask_url(url) == shown
    assert mask_url(shown) == shown
