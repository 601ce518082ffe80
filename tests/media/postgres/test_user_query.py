"""Queries of others, read page by page: typed parameters, nothing written, faults in the user's words."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.errors import InputFileError
from longshore.media.postgres.user_query import numbered
from longshore.runs.sources import Shape, SqlQuery
from longshore.runs.submit.input_files import InputEntry


@pytest.mark.parametrize(
    ("query", "statement", "names"),
    [
        ("select :a, :b, :a", "select $1, $2, $1", ["a", "b"]),
        ("select ':a', x::text, \":b\" -- :c\n/* :d */", "select ':a', x::text, \":b\" -- :c\n/* :d */", []),
        ("select $$ :a $$, 'it''s :b', :c::int", "select $$ :a $$, 'it''s :b', $1::int", ["c"]),
        ("select x[1:n]", "select x[1:n]", []),
    ],
)
def test_only_real_parameters_are_numbered(query: str, statement: str, names: list[str]) -> None:
    assert numbered(query) == (statement, names)


def rows(url: str, query: str, **parameters: Any) -> list[dict[str, Any]]:
    return [entry.payload for entry in SqlQuery(url, query, parameters).entries()]


def test_many_rows_come_page_by_page_and_whole(url: str) -> None:
    found = rows(url, "select n from generate_series(1, 2500) n order by n")
    assert [row["n"] for row in found] == list(range(1, 2501))


def test_what_was_typed_as_text_is_compared_as_what_the_query_needs(url: str) -> None:
    query = (
        "select n from generate_series(1, 9) n where n > :least::int and 'x' = :name::text and :on::bool "
        "and date '2024-02-01' > :day::date and n < :most::numeric"
    )
    found = rows(url, query, least="6", name="x", on="true", day="2024-01-31", most="8.5")
    assert [row["n"] for row in found] == [7, 8]


def test_dates_decimals_and_uuids_become_text_and_json_stays(url: str) -> None:
    query = (
        "select date '2024-01-31' as day, 1.50::numeric as price, "
        "'00000000-0000-0000-0000-000000000001'::uuid as id, null as nothing, array[1, 2] as list"
    )
    assert rows(url, query) == [
        {
            "day": "2024-01-31",
            "price": "1.50",
            "id": "00000000-0000-0000-0000-000000000001",
            "nothing": None,
            "list": [1, 2],
        }
    ]


def test_a_template_makes_the_url(url: str) -> None:
    source = SqlQuery(url, "select 'New York' as city", {}, Shape("https://a.org/{city}", None, "{city}"))
    assert list(source.entries()) == [
        InputEntry(payload={"city": "New York", "url": "https://a.org/New%20York"}, partition="New York")
    ]


@pytest.mark.parametrize(
    ("query", "parameters", "fault"),
    [
        ("select nothing", {}, 'column "nothing" does not exist'),
        ("selec 1", {}, "syntax error"),
        ("create table stolen (a int)", {}, "read-only transaction|returns no rows"),
        ("select 1 as a, 2 as a", {}, "Two columns of the query"),
        ("select :a::int", {}, "the parameter :a, and no value was given"),
        ("select 1 as a", {"b": "1"}, "no parameter :b"),
        ("select :a::int as a", {"a": "x"}, "the parameter :a of the query must be a int4, not 'x'|The parameter :a"),
        ("select '\\x00'::bytea as raw", {}, "'raw' holds a bytes"),
    ],
)
def test_a_query_that_cannot_be_used_is_refused(url: str, query: str, parameters: dict[str, str], fault: str) -> None:
    with pytest.raises(InputFileError, match=fault):
        rows(url, query, **parameters)


def test_reading_may_stop_half_way(url: str) -> None:
    entries = SqlQuery(url, "select n from generate_series(1, 100000) n").entries()
    assert next(entries).payload == {"n": 1}
    del entries


def test_a_database_out_of_reach_is_named_without_its_password() -> None:
    with pytest.raises(InputFileError, match="cannot be reached") as refused:
        rows("postgresql://me:hush@127.0.0.1:1/x", "select 1 as a")
    assert "hush" not in str(refused.value)
