"""docs/security.md names a test for each threat, and each of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = [line for line in PAGE.partition("## Threats and tests")[2].splitlines() if line.startswith("| ")][1:]
NAMED = re.findall(r"`(tests/[\w/]+\.py)` `(\w+)`", PAGE)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_threat_has_a_test() -> None:
    assert len(ROWS) >= 30
    assert [row for row in ROWS if len(re.findall(r"`tests/[\w/]+\.py` `test_\w+`", row)) != 1] == []
