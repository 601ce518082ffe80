"""`longshore run --items`: the records of a run as files, with the run's own command."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Shell

SHOP = """from longshore import handler

@handler("page", retries=0)
async def page(job, kit):
    number = int(job.payload["url"].rpartition("/")[2])
    kit.emit({"title": f"Cup {number}", "key": "its own"}, "cup")
    if number == 2:
        kit.emit({"stars": 5}, "../review")
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    shell.write("shop.py", SHOP)
    return shell


URLS = ["https://a.org/1", "https://a.org/2"]


def test_items_are_a_table_with_their_own_fields_first(shop: Shell) -> None:
    done = shop("run", "shop.py", *URLS, "--items", "items.csv")
    assert done.returncode == 0, done.stderr
    assert "items    items.csv (3 items)" in done.stderr
    rows = list(csv.DictReader((shop.folder / "items.csv").read_text().splitlines()))
    assert list(rows[0]) == ["title", "key", "stars", "run", "job_kind", "job_key", "n", "kind"]
    assert sorted((row["title"], row["key"], row["stars"], row["kind"]) for row in rows) == [
        ("", "", "5", "../review"),
        ("Cup 1", "its own", "", "cup"),
        ("Cup 2", "its own", "", "cup"),
    ]


def test_bare_items_are_what_was_emitted(shop: Shell) -> None:
    done = shop("run", "shop.py", URLS[0], "--items", "-", "--bare", "--out", "r.jsonl", "--run", "monday")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"title": "Cup 1", "key": "its own"}]
    exported = shop("export", "monday", "--records", "--bare")
    assert exported.stdout == done.stdout
    assert "--bare belongs to --records" in shop("export", "monday", "--bare").stderr


def test_each_kind_has_a_file_that_stays_in_its_folder(shop: Shell) -> None:
    (shop.folder / "out").mkdir()
    done = shop("run", "shop.py", *URLS, "--items", "out/{kind}.jsonl", "--bare")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (shop.folder / "out").iterdir()} == {"cup.jsonl", "..%2Freview.jsonl"}
    assert json.loads((shop.folder / "out" / "..%2Freview.jsonl").read_text()) == {"stars": 5}


def test_items_may_be_a_database_with_a_table_for_each_kind(shop: Shell) -> None:
    assert shop("run", "shop.py", *URLS, "--items", "items.sqlite").returncode == 0
    database = sqlite3.connect(shop.folder / "items.sqlite")
    assert database.execute("select count(*) from cup").fetchone() == (2,)
    database.close()


def test_a_run_without_items_says_so_and_writes_no_file(shell: Shell) -> None:
    done = shell("run", "pages.py", URLS[0], "--items", "items.csv")
    assert done.returncode == 0
    assert "items    none" in done.stderr
    assert not (shell.folder / "items.csv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--items", "items.xlsx"], "The name items.xlsx does not imply a format. End it in .jsonl, .ndjson, .csv"),
        (["--items", "no/{kind}.csv"], "--items no/{kind}.csv: there is no folder no"),
        (["--out", "results.xlsx"], "the results are written as JSONL, and .xlsx is another format"),
        (["--items", "no/items.csv"], "--items no/items.csv: there is no folder no"),
        (["--items", "{kind}/items.csv"], "may be part of the file's name"),
        (["--items", "x.jsonl", "--out", "x.jsonl"], "both name x.jsonl"),
        (["--bare"], "--bare belongs to --items"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(
    here: Path, refused: Callable[..., str], options: list[str], message: str
) -> None:
    (here / "shop.py").write_text(SHOP)
    assert message in refused("run", "shop.py", URLS[0], *options)
