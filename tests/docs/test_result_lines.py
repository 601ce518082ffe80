"""README names what each line of a results file holds: all of it, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from longshore.runs.export.rows import ResultLine

README = Path(__file__).parents[2] / "README.md"


def test_readme_names_the_keys_of_a_result_line() -> None:
    found = re.search(r"`results\.jsonl` has a line for each URL with its\s+([^.]*)\.", README.read_text())
    assert found is not None
    assert re.findall(r"`(\w+)`", found[1]) == list(ResultLine.__struct_fields__)
