"""The options of the HTTP client and of the browsers: a value object, or single keywords that replace its fields."""

from __future__ import annotations

import dataclasses
import inspect
from datetime import timedelta

import msgspec
import pytest

from longshore.errors import SettingsError
from longshore.scrape.browser import BrowserOptions, Browsers
from longshore.scrape.browser.browsers import BrowserKeywords
from longshore.scrape.http.client import Http, HttpKeywords, HttpOptions


def test_every_option_of_http_is_a_keyword() -> None:
    assert set(HttpKeywords.__annotations__) == {field.name for field in msgspec.structs.fields(HttpOptions)}


def test_every_option_of_browsers_is_a_keyword() -> None:
    assert set(BrowserKeywords.__annotations__) == {field.name for field in dataclasses.fields(BrowserOptions)}


def test_a_keyword_replaces_a_field_of_the_options() -> None:
    http = Http(HttpOptions(retries=7, timeout=timedelta(seconds=5)), retries=1)
    assert (http._context.retries, http._context.total) == (1, 5.0)


def test_a_keyword_of_browsers_replaces_a_field_of_the_options() -> None:
    browsers = Browsers("playwright", BrowserOptions(timeout=timedelta(seconds=7), targets=9), targets=2)
    assert (browsers._shared.seconds, browsers._shared.pool._targets) == (7.0, 2)


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="retrys"):
        Http(retrys=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="target"):
        Browsers(target=1)  # type: ignore[call-arg]


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingsError, match="Give it 1 or more"):
        BrowserOptions(targets=0)


@pytest.mark.parametrize("made", [Http, Browsers])
def test_a_constructor_takes_eight_arguments_at_most(made: type) -> None:
    assert len(inspect.signature(made).parameters) <= 8
