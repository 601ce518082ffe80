"""What workers weigh."""

from __future__ import annotations

import os
import subprocess
import sys

from longshore.fleet.sizing.memory_use import footprints

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "data = bytearray(60_000_000); print('fat', flush=True); input()"],
                         stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
"""


def test_a_worker_weighs_what_it_and_its_children_weigh() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"fat\n"
        weights = footprints([worker.pid, os.getpid()])
        worker.communicate(b"\n")
    assert weights[worker.pid] > 60_000_000
    assert weights[os.getpid()] > weights[worker.pid]


def test_one_that_is_gone_weighs_nothing() -> None:
    assert footprints([2**22 + 1]) == {}
