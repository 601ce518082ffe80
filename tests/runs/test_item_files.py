"""The names of the files for each kind of items: a page may choose the kinds."""

from __future__ import annotations

import pytest

from longshore.runs.export.items import names_of


def test_ordinary_kinds_keep_their_names() -> None:
    assert names_of(["cup", "blue cup (2)", "Tasse.1"]) == {
        "cup": "cup",
        "blue cup (2)": "blue cup (2)",
        "Tasse.1": "Tasse.1",
    }


@pytest.mark.parametrize(
    "kind", ["..", "../x", "a/b", "a\\b", "C:x", "x" * 5000, "ü" * 5000, "con", "NUL.txt", "lpt1 .x"]
)
def test_a_kind_leads_nowhere_and_prevents_no_other_file(kind: str) -> None:
    [name] = names_of([kind]).values()
    assert not set(name) & set("/\\:")
    assert len(name) <= 120
    assert name.partition(".")[0].strip().lower() not in {"con", "nul", "lpt1"}


def test_kinds_that_differ_in_case_have_different_files_on_every_system() -> None:
    names = names_of(["Cup", "cUP", "cup"])
    assert names["Cup"] == "Cup"
    assert len({name.casefold() for name in names.values()}) == 3
    assert names_of(["Cup", "cUP", "cup"]) == names
