"""A run on this machine, from its jobs in the queue to its end."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from pathlib import Path

from longshore.runs.local import one_worker
from longshore.runs.local.campaign import Campaign
from longshore.settings import resolve


def test_a_local_run_switches_off_every_limit_that_could_end_a_worker_before_the_run(tmp_path: Path) -> None:
    limits = set(re.findall(r"if settings\.(\w+):", inspect.getsource(one_worker.stop_conditions_of)))
    assert limits >= {"max_work", "max_empty_polls", "max_idle_hours"}
    [command] = Campaign("r", tmp_path / "pages.py", resolve({"workers": "1"}), tmp_path).commands()
    given = dict(pairwise(command.arguments))
    assert {name: given.get(f"--{name.replace('_', '-')}") for name in limits} == dict.fromkeys(limits, "0")
