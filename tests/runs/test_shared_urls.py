"""A file whose jobs share a URL and differ in the rest is refused before anything is submitted."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from longshore.errors import InputFileError
from longshore.runs.submit import shared_urls
from longshore.runs.submit.input_files import InputEntry, InputFile, InputFormat
from longshore.runs.submit.shared_urls import by_handler, by_option
from longshore.runs.submit.submission import check_file

SEARCH = "https://shop.example/search"


def file_of(tmp_path: Path, *lines: Any) -> InputFile:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return InputFile(str(tmp_path / "rows.jsonl"), InputFormat.JOBS)


def refusal(source: InputFile, fix: Any = by_option) -> str:
    with pytest.raises(InputFileError) as refused:
        check_file(source, "search", {}, fix)
    return str(refused.value).removeprefix(source.path)


def test_the_rows_the_url_the_fields_and_the_fix_are_named(tmp_path: Path) -> None:
    rows = [{"url": SEARCH, "page": page, "city": "x"} for page in range(1, 4)]
    assert refusal(file_of(tmp_path, {"url": "https://shop.example/"}, *rows)) == (
        ": Jobs 3, 4 share a URL with an earlier job (job 2: https://shop.example/search) and differ in page. By the "
        "URL alone they are one job, and only the first would be submitted. If they are different jobs, name the "
        "fields that count: --identity url,page. To submit only the first of each: --identity url. Nothing was "
        "submitted."
    )


def test_the_fix_for_a_handler_file_is_the_declaration(tmp_path: Path) -> None:
    source = file_of(tmp_path, {"url": SEARCH, "page": 1}, {"url": SEARCH, "page": 2})
    assert '@handler("search", identity=("url", "page"))' in refusal(source, by_handler)


def test_only_the_first_of_many_rows_are_named_and_the_others_counted(tmp_path: Path) -> None:
    source = file_of(tmp_path, *({"url": SEARCH, "page": page} for page in range(1000)))
    assert ": Jobs 2, 3, 4, 5, 6 and 994 more share a URL" in refusal(source)


def test_all_spellings_of_a_url_are_one(tmp_path: Path) -> None:
    other = "HTTPS://shop.example:443/search?utm_source=mail#top"
    assert "differs in page" in refusal(file_of(tmp_path, {"url": SEARCH, "page": 1}, {"url": other, "page": 2}))


def test_a_field_that_one_row_lacks_is_a_difference(tmp_path: Path) -> None:
    source = file_of(tmp_path, {"url": SEARCH, "page": 1, "city": None}, {"url": SEARCH, "page": 1})
    assert "differs in city" in refusal(source)


@pytest.mark.parametrize(
    "lines",
    {
        "the same row twice": [{"url": SEARCH, "page": 1}, {"page": 1, "url": SEARCH}],
        "urls alone": [{"url": SEARCH}, {"url": SEARCH}],
        "other urls": [{"url": f"{SEARCH}/{n}", "page": n} for n in range(100)],
        "no url": [{"page": 1}, {"page": 2}],
        "keys of their own": [
            {"payload": {"url": SEARCH, "page": 1}, "key": "1"},
            {"payload": {"url": SEARCH, "page": 2}, "key": "2"},
        ],
    }.items(),
    ids=lambda item: item[0],
)
def test_rows_that_lose_nothing_are_accepted(tmp_path: Path, lines: tuple[str, list[Any]]) -> None:
    check_file(file_of(tmp_path, *lines[1]), "search")


@pytest.mark.parametrize("identity", [("url", "page"), ("url",)])
def test_a_declared_identity_is_taken_at_its_word(tmp_path: Path, identity: tuple[str, ...]) -> None:
    source = file_of(tmp_path, {"url": SEARCH, "page": 1}, {"url": SEARCH, "page": 2})
    check_file(source, "search", {"search": identity})
    with pytest.raises(InputFileError):
        check_file(source, "search", {"another": identity})


class Numbered:
    """A source of many rows with URLs of their own, and one at the end that has the URL of the first."""

    name = "numbers"
    rereadable = True

    def __init__(self, rows: int, *, twice: bool) -> None:
        self.rows = rows
        self.twice = twice

    def entries(self) -> Iterator[InputEntry]:
        for number in range(self.rows):
            row = number // 2 if self.twice else number
            yield InputEntry(payload={"url": f"https://shop.example/{row}", "page": row})
        yield InputEntry(payload={"url": "https://shop.example/0", "page": "other"})

    def refuse_empty(self) -> NoReturn:
        raise AssertionError


@pytest.mark.parametrize("twice", [False, True], ids=["all different", "each twice"])
def test_memory_stays_bounded(twice: bool) -> None:
    """Of each row only a number is kept; of rows that occur twice, one number more."""
    tracemalloc.start()
    try:
        with pytest.raises(InputFileError, match=r"Job 100,001 shares a URL with an earlier job \(job 1: "):
            check_file(Numbered(100_000, twice=twice), "search")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000 * (150 if twice else 60)


def test_a_source_that_cannot_be_read_twice_is_not_read() -> None:
    endless = Numbered(0, twice=False)
    endless.rereadable = False
    endless.entries = lambda: itertools.repeat(InputEntry(payload={}))  # type: ignore[method-assign]
    check_file(endless, "search")


def test_numbers_are_a_set_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_urls, "_FIRST_SIZE", 4)
    chance = random.Random(7)
    numbers, seen = shared_urls._Numbers(), set[int]()
    for _ in range(20_000):
        number = chance.choice((chance.randrange(-(2**63), 2**63), chance.randrange(-500, 500), 0, 1))
        # 0 and 1 are one number: 0 marks an empty place.
        assert numbers.add(number) == ((number or 1) not in seen)
        seen.add(number or 1)


def test_a_full_table_remembers_what_it_has_and_ends_every_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_urls, "_FIRST_SIZE", 4)
    monkeypatch.setattr(shared_urls, "_LARGEST_SIZE", 16)
    numbers = shared_urls._Numbers()
    assert all(numbers.add(number) for number in range(1, 100))
    assert not numbers.add(1)
    assert numbers.add(99)
