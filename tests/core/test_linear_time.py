"""A page chooses URLs and texts. Masking and comparing them takes time that grows with their length, not its square."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.linear_time import assert_linear

from longshore.url import canonical_url, host_of, mask_url, mask_urls

FUNCTIONS: list[Callable[[str], object]] = [mask_url, mask_urls, canonical_url, host_of]
UNITS = [
    "?token",
    "#auth",
    "?",
    ";sess",
    "&sig=",
    "a=",
    "a1://",
    "ab://x:y ",
    "@",
    "a:",
    "[",
    " ",
    ".git ",
    "/..",
    "sk-",
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_repeated_part_costs_linear_time(function: Callable[[str], object], unit: str) -> None:
    assert_linear(function, lambda n: "http://h/" + unit * (n // len(unit)))


@pytest.mark.parametrize("unit", ["a", "a.", "ß", "ß."])
def test_a_long_host_costs_linear_time(unit: str) -> None:
    for function in FUNCTIONS:
        assert_linear(function, lambda n: "http://" + unit * (n // len(unit)))


parts = st.text(st.sampled_from("?&#=;:@/. [%-_tokensigauthpw"), min_size=1, max_size=6)


@given(st.sampled_from(FUNCTIONS), st.sampled_from(["", "http://", "http://h/", "http://h/?"]), parts, parts)
@example(mask_url, "http://h/", "?token", "?token")
@settings(deadline=None, max_examples=80)
def test_no_repeated_text_costs_more(function: Callable[[str], object], begin: str, unit: str, end: str) -> None:
    assert_linear(function, lambda n: begin + unit * (n // len(unit)) + end)
