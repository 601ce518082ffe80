"""Many pages by two workers with replaced browsers: no process is left over, and memory stays flat."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.scrape.browser.conftest import KINDS, Site
from tests.waiting import wait_until

MEGABYTE = 2**20


def browsers_running() -> set[int]:
    return {each.pid for each in psutil.process_iter(["name"]) if "chrom" in (each.info["name"] or "")}


@pytest.mark.parametrize("kind", KINDS)
def test_300_pages_by_two_workers_leave_no_process_and_weigh_no_more_at_the_end(
    site: Site, kind: str, long: bool, tmp_path: Path
) -> None:
    pages, targets = (300, 100) if long else (18, 6)
    script = Path(__file__).with_name("proof_worker.py")
    command = [sys.executable, "-P", str(script), kind, site.url, str(pages), str(targets)]
    before = site.asked.total()
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) for _ in range(2)]
    told = [json.loads(worker.communicate()[0].splitlines()[-1]) for worker in workers]

    assert [worker.returncode for worker in workers] == [0, 0]
    assert site.asked.total() - before >= 2 * pages
    for worker in told:
        assert worker["left"] == []
        assert len(worker["weights"]) == 3
        for part in ("own", "browser"):
            first, last = worker["weights"][0][part], worker["weights"][-1][part]
            assert last < first * 1.15 + 10 * MEGABYTE, worker["weights"]
    for weights in (worker["weights"] for worker in told):
        print(kind, [{part: round(weight / MEGABYTE) for part, weight in each.items()} for each in weights])
    # Process ids are reused, but not all of them within a minute.
    numbers = {number for worker in told for number in worker["seen"]}
    wait_until(lambda: not numbers & browsers_running())
