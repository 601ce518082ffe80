"""docs/ledger.md is current, and no capability is without a test that shows it."""

from __future__ import annotations

from pathlib import Path

from tests.ledger import LINES, PAGE, WAITING, page, shown


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(shown()), "Run: python -m tests.ledger"


def test_every_line_is_shown_by_a_test() -> None:
    found = shown()
    assert {line for line in LINES if line not in found} == WAITING
    assert set(found) <= set(LINES), "a marker names a line that there is not"


def test_the_lines_are_numbered_without_a_gap() -> None:
    counts = {"A": 20, "B": 16, "C": 9, "D": 9, "E": 16, "F": 13}
    assert list(LINES) == [f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)]


def test_markers_of_functions_methods_and_classes_are_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.ledger('A1', 'B2')\n@pytest.mark.parametrize('n', [1])\ndef test_a(n): ...\n\n"
        "@pytest.mark.ledger('F1')\nclass TestAll:\n    @pytest.mark.ledger('A1')\n    async def test_b(self): ...\n"
    )
    assert shown(tmp_path) == {
        "A1": ["tests/test_one.py::test_a", "tests/test_one.py::TestAll::test_b"],
        "B2": ["tests/test_one.py::test_a"],
        "F1": ["tests/test_one.py::TestAll"],
    }
