"""Data for machines in a page: JSON-LD, meta tags, forms."""

from __future__ import annotations

import pytest

from longshore import ProcessingError
from longshore.scrape.http.response import Response


def page(html: str) -> Response:
    return Response(url="https://a.org/shop/cup", body=html.encode())


def script(text: str) -> str:
    return f'<script type="application/ld+json">{text}</script>'


def test_json_ld_objects_are_returned_one_by_one() -> None:
    html = script('{"@type": "Product", "name": "Cup & saucer"}') + script(
        '[{"@type": ["Offer", "Thing"]}, {"@context": "x", "@graph": [{"@type": "https://schema.org/Person"}]}]'
    )
    assert [item["@type"] for item in page(html).json_ld()] == [
        "Product",
        ["Offer", "Thing"],
        "https://schema.org/Person",
    ]
    assert page(html).json_ld("Product") == [{"@type": "Product", "name": "Cup & saucer"}]
    assert len(page(html).json_ld("Offer")) == 1
    assert len(page(html).json_ld("Person")) == 1


@pytest.mark.parametrize(
    "text",
    ['{"name": "two\nlines"}', '<!-- {"name": "x"} -->', '//<![CDATA[\n{"name": "x"}\n//]]>', '{"name": "x"};'],
)
def test_json_ld_as_pages_write_it_is_read(text: str) -> None:
    assert page(script(text)).json_ld()[0]["name"]


@pytest.mark.parametrize("broken", ["{", "[" * 100_000, "", "1", "null", '{"a": NaN'])
def test_a_broken_script_does_not_hide_the_others(broken: str) -> None:
    assert page(script(broken) + script('{"name": "x"}')).json_ld() == [{"name": "x"}]


def test_meta_tags_are_found_by_name() -> None:
    html = """<html lang=de><title> A
      cup </title><meta name=Description content=" blue "><meta property=og:title content=Cup>
      <meta name=description content=second><link rel="Canonical" href="/cup"><meta content=nameless>"""
    assert page(html).meta() == {
        "description": "blue",
        "og:title": "Cup",
        "title": "A cup",
        "canonical": "https://a.org/cup",
        "lang": "de",
    }


FORM = """<form id=search action=/find?old=1><input name=q></form>
<form id=login method=POST action="/login">
  <input type=hidden name=csrf value=abc><input name=user><input type=password name=password>
  <input type=checkbox name=stay checked><input type=checkbox name=mail value=yes>
  <input type=radio name=size value=s><input type=radio name=size value=m checked>
  <select name=country><option value=de>Germany<option selected>Austria</select>
  <select name=first><option value=1>One<option value=2>Two</select>
  <textarea name=note>hello</textarea>
  <input name=off disabled value=1><input type=submit name=go value=Go><input type=file name=photo>
</form>"""


def test_a_form_has_the_fields_that_a_browser_sends() -> None:
    form = page(FORM).form("#login", {"user": "ann", "password": "geheim"})
    assert (form.method, form.url, form.params) == ("POST", "https://a.org/login", None)
    assert form.data == {
        "csrf": ["abc"],
        "user": ["ann"],
        "password": ["geheim"],
        "stay": ["on"],
        "size": ["m"],
        "country": ["Austria"],
        "first": ["1"],
        "note": ["hello"],
    }


def test_a_search_form_replaces_the_query() -> None:
    form = page(FORM).form(values={"q": "cup"})
    assert (form.method, form.url, form.params, form.data) == ("GET", "https://a.org/find", {"q": ["cup"]}, None)


def test_a_misspelled_field_and_a_missing_form_are_named() -> None:
    with pytest.raises(ProcessingError, match=r"The form has no field usr\. It has: .*user"):
        page(FORM).form("#login", {"usr": "ann"})
    with pytest.raises(ProcessingError, match=r"No form matches '#signup' on https://a\.org/shop/cup"):
        page(FORM).form("#signup")
