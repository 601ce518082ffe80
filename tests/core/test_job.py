"""Jobs: what makes one unique, and which moves between states are legal."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longshore.job import FINISHED, TRANSITIONS, Job, State, new_job, payload_key
from longshore.url import url_key

values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
payloads = st.dictionaries(st.text(max_size=5), values | st.lists(values, max_size=3), max_size=5)


def test_only_a_retry_leads_out_of_a_finished_state() -> None:
    out = {source: target for source, target in TRANSITIONS if source in FINISHED}
    assert out == {State.FAILED: State.PENDING, State.CANCELLED: State.PENDING}
    assert {TRANSITIONS[move] for move in out.items()} == {"retry"}


def test_a_job_is_claimed_only_from_pending_and_finished_only_from_claimed_or_by_cancelling() -> None:
    legal = set(TRANSITIONS)
    assert {source for source, target in legal if target is State.CLAIMED} == {State.PENDING}
    ends = {(source, target) for source, target in product(State, FINISHED) if (source, target) in legal}
    assert ends == {
        (State.CLAIMED, State.COMPLETED),
        (State.CLAIMED, State.FAILED),
        (State.CLAIMED, State.CANCELLED),
        (State.PENDING, State.CANCELLED),
    }


def test_every_state_can_be_reached() -> None:
    assert {target for _, target in TRANSITIONS} == set(State)


def test_a_job_with_a_url_is_known_by_that_url_and_counted_by_its_host() -> None:
    made = new_job("page", {"url": "https://X.test/a#b", "depth": 2})
    assert (made.key, made.host) == (url_key("https://x.test/a"), "x.test")
    assert made.payload == {"url": "https://X.test/a#b", "depth": 2}


def test_a_job_without_a_url_is_known_by_its_content() -> None:
    made = new_job("filing", {"cik": 1, "year": 2024})
    assert made.key == new_job("filing", {"year": 2024, "cik": 1}).key
    assert made.key != new_job("filing", {"year": 2025, "cik": 1}).key
    assert made.host == ""


def test_a_url_that_is_no_text_is_content_like_any_other() -> None:
    made = new_job("page", {"url": None})
    assert (made.key, made.host) == (payload_key({"url": None}), "")


def test_what_the_caller_says_wins() -> None:
    made = new_job("page", {"url": "https://x.test/"}, key="mine", host="other.test", run="r", max_attempts=1)
    assert (made.key, made.host, made.run, made.max_attempts) == ("mine", "other.test", "r", 1)


@given(payloads)
def test_the_order_of_a_payload_does_not_make_another_job(payload: dict[str, Any]) -> None:
    assert payload_key(dict(reversed(payload.items()))) == payload_key(payload)


@given(payloads, payloads)
def test_payloads_that_differ_make_jobs_that_differ(one: dict[str, Any], another: dict[str, Any]) -> None:
    # By their text: to Python 1 and True are equal, and they are not the same parameter.
    same = sorted(map(repr, one.items())) == sorted(map(repr, another.items()))
    assert (payload_key(one) == payload_key(another)) == same


def test_the_attempt_under_way_is_counted_from_one() -> None:
    assert Job(id="1", run="", kind="page", key="a", payload={}).attempt == 1
    assert Job(id="1", run="", kind="page", key="a", payload={}, attempts=3).attempt == 4
