"""`longshore fleet --autoscale` (D7): sized by the work, from the command line to the last worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SLOW = """import asyncio
from longshore import handler

@handler("page")
async def page(job, kit):
    await asyncio.sleep(0.05)
"""
Refused = Callable[..., str]


def test_a_fleet_begins_with_the_fewest_grows_with_the_work_and_ends_with_it(shell: Any) -> None:
    shell.write("slow.py", SLOW)
    shell("submit", "page", "--urls-file", shell.urls(300), "--run", "june")
    order = ("fleet", "slow.py", "--run", "june", "--autoscale", "1:3", "--per", "100", "--until-done", "--yes")
    done = shell(*order, "--concurrency", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 at first, then one for each 100 pending within 1:3" in done.stdout
    assert "From 1 to 2 workers: " in done.stdout
    assert "starting 1 worker" in (shell.folder / "logs" / "fleet.log").read_text()
    assert shell.json("status", "june", "--json")["completed"] == 300


def test_a_handler_that_always_dies_is_given_up_and_not_started_under_ever_new_numbers(shell: Any) -> None:
    # Whatever imports it, the check before the start has to pass: only a worker has a lifeline.
    shell.write("dies.py", f"import sys\n{SLOW}\nif '--lifeline' in sys.argv:\n    sys.exit(2)\n")
    shell("submit", "page", "--urls-file", shell.urls(10), "--run", "june")
    done = shell("fleet", "dies.py", "--run", "june", "--autoscale", "1:9", "--yes")
    assert done.returncode == 1
    assert "worker 0 ended with exit code 2" in done.stdout
    assert "worker 1" not in done.stdout


@pytest.mark.parametrize("option", [("--workers", "3"), ("--table", "table.toml"), ("--test",)])
def test_what_else_says_which_workers_there_are_is_refused(
    here: Path, refused: Refused, option: tuple[str, ...]
) -> None:
    error = refused("fleet", "pages.py", "--autoscale", "1:5", *option)
    assert f"--autoscale and {option[0]} both say which workers there are" in error


def test_bounds_that_are_none_and_a_per_without_them_are_refused(here: Path, refused: Refused) -> None:
    assert "--autoscale cannot be '5:1'" in refused("fleet", "pages.py", "--autoscale", "5:1")
    assert "Add --autoscale" in refused("fleet", "pages.py", "--per", "10")
