"""`longshore assign`: the table, its checks, and what it refuses (B1, B2)."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshore.cli import main
from longshore.fleet.partitions.us_states import US_STATES

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def says(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `longshore assign` prints with these arguments."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        code = main(("assign", *arguments))
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


@pytest.mark.parametrize("workers", [1, 3, 7, 10, 60])
def test_any_number_of_workers_covers_every_state_once(says: Callable[..., str], workers: int) -> None:
    shown = json.loads(says("--workers", str(workers), "--partitions", "us-states", "--json"))
    assert (shown["workers"], shown["partitions"]) == (workers, 51)
    assert [row["worker"] for row in shown["assigned"]] == list(range(workers))
    assert sorted(state for row in shown["assigned"] for state in row["partitions"]) == list(US_STATES)


def test_the_table_says_how_it_is_balanced_and_what_one_more_worker_would_move(says: Callable[..., str]) -> None:
    lines = says("--workers", "10", "--partitions", "us-states").splitlines()
    assert lines[0].split() == ["worker", "partitions", "has"]
    assert [line.split()[0] for line in lines[1:11]] == [str(number) for number in range(10)]
    assert lines[11:] == [
        "51 partitions on 10 workers: 5 each, 1 has 6. Every partition has exactly one worker.",
        "One more worker would move 4 of them (8 %).",
    ]


def test_workers_without_partitions_of_their_own_are_said_to_help(says: Callable[..., str]) -> None:
    shown = says("--workers", "3", "--partitions", "CA,TX")
    assert re.search(r"^ *2  \(helps the others\) +0$", shown, re.MULTILINE)
    assert "1 each, 1 has none" in shown


def test_the_partitions_of_a_run_come_with_what_is_pending(here: Path, says: Callable[..., str]) -> None:
    jobs = [{"payload": {"n": n}, "partition": partition} for partition in ("CA", "NV") for n in range(3)]
    jobs += [{"payload": {"n": 9}, "partition": "CA"}, {"payload": {"n": 10}}]
    (here / "jobs.jsonl").write_text("".join(json.dumps(job | {"key": str(n)}) + "\n" for n, job in enumerate(jobs)))
    assert main(("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r")) == 0
    shown = json.loads(says("--workers", "2", "--run", "r", "--json"))
    assert shown["assigned"] == [
        {"worker": 0, "partitions": ["CA"], "pending": 4},
        {"worker": 1, "partitions": ["NV"], "pending": 3},
    ]
    assert says("--workers", "2", "--run", "r").splitlines()[0].split() == ["worker", "partitions", "has", "pending"]


def test_partitions_come_from_a_file(here: Path, says: Callable[..., str]) -> None:
    (here / "states.txt").write_text("# west\nCA\nNV\n")
    assert json.loads(says("--workers", "1", "--partitions-file", "states.txt", "--json"))["partitions"] == 2


def test_a_fixed_table_is_shown_as_it_is(here: Path, says: Callable[..., str]) -> None:
    (here / "table.toml").write_text('0 = ["TX", "CA", "NV"]\n1 = ["UT"]\n')
    shown = json.loads(says("--table", "table.toml", "--json"))
    assert [row["partitions"] for row in shown["assigned"]] == [["CA", "NV", "TX"], ["UT"]]
    assert "4 partitions on 2 workers: 1 to 3 each." in says("--table", "table.toml")


def test_everything_that_is_wrong_with_a_table_is_named_at_once(here: Path, refused: Callable[..., str]) -> None:
    (here / "table.toml").write_text('0 = ["CA", "NV"]\n1 = ["CA", "ZZ"]\n2 = []\n')
    said = refused("assign", "--workers", "2", "--table", "table.toml", "--partitions", "CA,NV,TX")
    assert "table.toml has 4 problems" in said
    assert "CA is listed for workers 0 and 1" in said
    assert "No worker has TX" in said
    assert "ZZ: not among" in said
    assert "It has worker 2, but 2 workers are numbered 0 to 1" in said


def test_without_partitions_the_ways_to_name_them_are_named(here: Path, refused: Callable[..., str]) -> None:
    said = refused("assign", "--workers", "2")
    assert all(way in said for way in ("--partitions", "--partitions-file", "--run", "--table"))


def test_two_lists_are_refused(here: Path, refused: Callable[..., str]) -> None:
    assert "Give one of them" in refused("assign", "--partitions", "CA", "--partitions-file", "states.txt")


def test_a_partition_listed_twice_is_refused(here: Path, refused: Callable[..., str]) -> None:
    assert "lists CA more than once" in refused("assign", "--partitions", "CA,TX,CA")


def test_a_run_without_partitions_is_refused_with_the_fix(here: Path, refused: Callable[..., str]) -> None:
    (here / "urls.txt").write_text("https://a.org/1\n")
    run = [sys.executable, "-m", "longshore", "submit", "page", "--urls-file", "urls.txt", "--run", "r"]
    subprocess.run(run, cwd=here, check=True, capture_output=True)
    assert "No job of run 'r' has a partition" in refused("assign", "--run", "r")


def test_on_a_terminal_of_100_columns_nothing_is_cut_and_nothing_is_wider(here: Path) -> None:
    ours, theirs = pty.openpty()
    command: list[Any] = [sys.executable, "-m", "longshore", "assign", "--workers", "1", "--partitions", "us-states"]
    with subprocess.Popen(command, cwd=here, stdout=theirs, env={**os.environ, "COLUMNS": "100"}) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        assert process.wait() == 0
    os.close(ours)
    lines = ANSI.sub("", shown.decode()).splitlines()
    assert max(len(line) for line in lines) <= 100
    named = set(re.findall(r"\b[A-Z]{2}\b", "\n".join(lines)))
    assert named == set(US_STATES)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so at the end
        return b""
