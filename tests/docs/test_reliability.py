"""docs/reliability.md names tests for each defect that was found, and each of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOUND = (ROOT / "docs" / "reliability.md").read_text().partition("## What was found")[2].partition("\n## ")[0]
ROWS = [line for line in FOUND.splitlines() if line.startswith("| ")][1:]
NAMED = re.findall(r"`((?:tests|src)/[\w/]+\.py)` `(\w+)`", FOUND)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_defect_has_a_test() -> None:
    assert len(ROWS) >= 19
    assert [row for row in ROWS if not re.search(r"`(tests|src)/[\w/]+\.py` `test_\w+`", row)] == []
