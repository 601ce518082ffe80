"""A shop with a log-in, a sitemap, JSON-LD, robots.txt, gzip and latin-1: a handler of 11 lines, and one command."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.first_day import __main__ as first_day


async def test_a_shop_is_in_a_table_after_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert first_day.lines_of(first_day.HERE / "longshore_shop.py") <= 12
    done = await first_day.trial("longshore, first rate 1000", None)
    assert done.forbidden == 0
