"""`submit --scan` again joins the run it made (C1); `--product` makes the combinations (B14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longshore.cli import main

Says = Callable[..., str]


def submitted(says: Says, *arguments: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(says("submit", *arguments))
    return answer


def test_the_same_scan_joins_its_run_and_adds_only_new_files(here: Path, says: Says) -> None:
    filings = here / "filings"
    filings.mkdir()
    (filings / "2024_a.html").write_text("a")
    first = submitted(says, "filing", "--scan", "filings", "--year", "2024")
    (filings / "2024_b.html").write_text("b")
    again = submitted(says, "filing", "--scan", "filings", "--year", "2024")
    assert (again["run_id"], again["submitted"], again["duplicates"]) == (first["run_id"], 1, 1)
    (filings / "2025_c.html").write_text("c")
    # Another scan, another kind, or a name of its own is another run.
    others = [
        submitted(says, "filing", "--scan", "filings"),
        submitted(says, "other", "--scan", "filings", "--year", "2024"),
        submitted(says, "filing", "--scan", "filings", "--year", "2024", "--run", "mine"),
    ]
    assert len({first["run_id"], *(each["run_id"] for each in others)}) == 4
    assert others[2]["run_id"] == "mine"


def test_a_pruned_run_is_not_joined(here: Path, says: Says) -> None:
    (here / "f").mkdir()
    (here / "f" / "a.html").write_text("a")
    first = submitted(says, "filing", "--scan", "f")
    assert main(["prune", "--run", str(first["run_id"]), "--unfinished", "--yes"]) == 0
    assert submitted(says, "filing", "--scan", "f")["run_id"] != first["run_id"]


def test_a_product_is_made_of_values_lines_and_lists_by_the_value_before(here: Path, says: Says) -> None:
    (here / "cities.json").write_text(json.dumps({"TX": ["Austin", "Waco"], "CA": ["Fresno"]}))
    (here / "categories.txt").write_text("cafe\nbakery\n")
    product = ("--product", "state=TX,CA", "--product", "city=@cities.json", "--product", "category=@categories.txt")
    shape = ("--template", "https://a.org/{state}/{city}/{category}", "--partition", "{state}")
    assert submitted(says, "place", *product, *shape, "--run", "r")["submitted"] == 6
    jobs = json.loads(says("jobs", "--run", "r", "--json"))
    assert {(job["partition"], job["payload"]["url"]) for job in jobs} >= {
        ("TX", "https://a.org/TX/Waco/bakery"),
        ("CA", "https://a.org/CA/Fresno/cafe"),
    }
    assert submitted(says, "place", *product, *shape, "--run", "r")["submitted"] == 0


@pytest.mark.parametrize("wrong", ["state", "=TX", "state=@missing.txt"])
def test_a_wrong_product_is_refused(here: Path, refused: Says, wrong: str) -> None:
    refused("submit", "place", "--product", wrong)
