"""`longshore scrapers`: the registry on a screen and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

REGISTRY = """
[scrapers.India]
handler = "pages.py"
mode = "distributed"
urls = "urls.txt"
partitions = ["North", "South"]
[scrapers.India.settings]
concurrency = 4

[scrapers.Peru]
handler = "pages.py"
source = {sql = "postgresql://me:hush@a.org/shop", query = "select url from page"}
"""


def test_the_scrapers_are_listed_without_passwords(here: Path, says: Callable[..., str]) -> None:
    (here / "pages.py").touch()
    (here / "longshore.toml").write_text(REGISTRY)
    shown = says("scrapers")
    assert [line.split() for line in shown.splitlines()] == [
        ["name", "mode", "handler", "kind", "source", "partitions"],
        ["India", "distributed", "pages.py", "urls.txt", "North,", "South"],
        ["Peru", "single", "pages.py", "postgresql://me:***@a.org/shop"],
    ]
    india, peru = json.loads(says("scrapers", "--json"))
    assert india == {
        "name": "India",
        "mode": "distributed",
        "handler": "pages.py",
        "kind": None,
        "source": "urls.txt",
        "partitions": ["North", "South"],
        "settings": {"concurrency": "4"},
    }
    assert "hush" not in json.dumps(peru)


def test_without_any_it_says_how_to_make_one(here: Path, says: Callable[..., str]) -> None:
    assert "[scrapers.NAME] in longshore.toml" in says("scrapers")
    assert json.loads(says("scrapers", "--json")) == []


def test_a_wrong_registry_is_refused_by_every_verb_that_reads_it(here: Path, refused: Callable[..., str]) -> None:
    (here / "longshore.toml").write_text('[scrapers.India]\nmode = "both"\n[scrapers.Peru]\nhandler = "none.py"\n')
    for command in (["scrapers"], ["start", "India"]):
        said = refused(*command)
        assert "India: its mode cannot be 'both'" in said
        assert "Peru: there is no handler file none.py" in said
