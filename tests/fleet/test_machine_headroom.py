"""What a machine, or the container in it, has to give to workers."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from longshore.fleet.sizing.machine_headroom import MachineHeadroom, memory_of, own_groups, processors_of
from longshore.system import machine


async def test_this_machine_is_read_with_its_workers() -> None:
    read = await MachineHeadroom().read([os.getpid()])
    assert 0 < read.available <= read.total <= machine.memory()[1]
    assert 1 <= read.processors <= machine.processors()
    assert 0 <= read.busy <= 1
    assert len(read.workers) == 1
    assert read.workers[0] > 2**20


async def test_what_a_worker_started_counts_as_its_own() -> None:
    code = "import sys; filled = b'x' * 50_000_000; print('ready', flush=True); sys.stdin.read()"
    [alone] = (await MachineHeadroom().read([os.getpid()])).workers
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=PIPE, stdout=PIPE)
    assert child.stdout is not None
    await child.stdout.readline()
    [together] = (await MachineHeadroom().read([os.getpid()])).workers
    await child.communicate(b"")
    assert together > alone + 50_000_000


async def test_a_worker_that_is_gone_weighs_nothing() -> None:
    gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await gone.wait()
    assert (await MachineHeadroom().read([gone.pid])).workers == ()


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """A service of a slice, with limits on both."""
    service = tmp_path / "work.slice" / "fleet.service"
    service.mkdir(parents=True)
    (service / "memory.max").write_text("1000\n")
    (service / "memory.current").write_text("700\n")
    (service / "memory.stat").write_text("anon 500\ninactive_file 150\n")
    (service / "cpu.max").write_text("150000 100000\n")
    (service.parent / "memory.max").write_text("max\n")
    (service.parent / "memory.current").write_text("9000\n")
    (service.parent / "memory.stat").write_text("anon 9000\n")
    (service.parent / "cpu.max").write_text("max 100000\n")
    return tmp_path


def test_the_groups_around_a_process_are_found(groups: Path) -> None:
    own = groups / "cgroup"
    own.write_text("1:name=systemd:/old\n0::/work.slice/fleet.service\n")
    slice_ = groups / "work.slice"
    assert list(own_groups(own, groups)) == [slice_ / "fleet.service", slice_, groups]


def test_limits_are_taken_where_there_are_any(groups: Path) -> None:
    around = [groups / "work.slice" / "fleet.service", groups / "work.slice", groups]
    assert list(memory_of(around)) == [(450, 1000)]
    assert list(processors_of(around)) == [2]


def test_a_system_without_groups_has_no_limits(tmp_path: Path) -> None:
    assert list(own_groups(tmp_path / "none", tmp_path)) == []
