"""What one process has seen unchanged counts for the next one of the same machine and boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.media.sightings import Sightings


class Machine:
    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.boot = "boot-1"
        self.file = folder / "deep" / "seen.json"

    def process(self) -> Sightings:
        return Sightings(lambda: self.now, self.boot, self.file)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def look(process: Sightings, state: str = "a") -> float:
    process.see("worker", state)
    process.save()
    return process.unchanged_for("worker", state)


def test_the_next_process_goes_on_counting(machine: Machine) -> None:
    assert look(machine.process()) == 0
    machine.now += 1200
    assert look(machine.process()) == 1200
    machine.now += 5
    assert look(machine.process(), "b") == 0


def test_only_a_witnessed_change_is_as_old_as_it_looks(machine: Machine) -> None:
    assert not machine.process().see("worker", "a").changed
    look(machine.process())
    assert machine.process().see("worker", "b").changed


def test_after_a_time_without_a_look_the_watching_begins_again(machine: Machine) -> None:
    first = machine.process()
    look(first)
    machine.now += 30
    look(first)
    assert machine.process().watched_for() > 1e6
    machine.now += 1200
    late = machine.process()
    assert (look(late), late.watched_for()) == (1230, 0)
    machine.now += 20
    assert late.watched_for() == machine.process().watched_for() == 20


def test_a_time_without_contact_counts_for_no_process(machine: Machine) -> None:
    first, second = machine.process(), machine.process()
    look(first)
    look(second)
    machine.now += 100
    first.restart()
    assert look(first) == 0
    machine.now += 7
    assert look(second) == look(machine.process()) == 7


def test_what_was_seen_before_a_boot_counts_for_nothing(machine: Machine) -> None:
    look(machine.process())
    machine.now += 100
    machine.boot = "boot-2"
    assert look(machine.process()) == 0
    machine.now = 5.0
    assert look(machine.process()) == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"boot": 1}', b"\xff"])
def test_a_damaged_file_is_like_none(machine: Machine, content: bytes) -> None:
    look(machine.process())
    machine.file.write_bytes(content)
    machine.now += 100
    assert look(machine.process()) == 0


def test_a_file_that_cannot_be_written_is_done_without(machine: Machine) -> None:
    machine.file.parent.write_text("a file in place of the folder")
    process = machine.process()
    look(process)
    machine.now += 3
    assert look(process) == 3
