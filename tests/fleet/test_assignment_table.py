"""Fixed tables and lists of partitions: what they say, and everything that is wrong with them at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import InputFileError, UsageError
from longshore.fleet.partitions.assignment_table import (
    AssignmentTable,
    listed_partitions,
    problems_text,
    read_partitions,
    read_table,
)
from longshore.fleet.partitions.us_states import US_STATES


def written(folder: Path, text: str, name: str = "table.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_is_toml(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, '1 = ["TX"]\n0 = ["CA", "NV"]\n2 = []\n'))
    assert table.rows == {0: ("CA", "NV"), 1: ("TX",), 2: ()}
    assert table.partitions == ("CA", "NV", "TX")
    assert table.problems(["CA", "NV", "TX"], 3) == []


def test_a_table_is_json(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, '{"0": ["CA"], "1": ["TX"]}', "table.json"))
    assert table.rows == {0: ("CA",), 1: ("TX",)}


def test_twice_missing_unknown_and_too_many_workers_are_all_named_at_once() -> None:
    table = AssignmentTable({0: ["CA", "NV", "NV"], 1: ["CA", "ZZ"], 4: ["TX"]})
    problems = table.problems(["CA", "NV", "TX", "UT", "WA"], 3)
    assert problems == [
        "CA is listed for workers 0 and 1; leave it with one.",
        "NV is listed 2 times for worker 0; once is enough.",
        "No worker has UT and WA.",
        "ZZ: not among the partitions to assign.",
        "It has worker 4, but 3 workers are numbered 0 to 2.",
    ]
    message = problems_text(Path("t.toml"), problems)
    assert message.startswith("t.toml has 5 problems:\n  - CA is listed")


def test_everything_that_keeps_a_file_from_being_a_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputFileError) as caught:
        read_table(written(tmp_path, 'first = ["CA"]\n0 = "NV"\n1 = [3]\n'))
    message = str(caught.value)
    assert "has 3 problems" in message
    assert "'first' is not a worker's number" in message
    assert "The value of worker 0 must be a list of names" in message
    assert "The value of worker 1 must be a list of names" in message


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("t.toml", "0 = [", "is not TOML"),
        ("t.json", "{", "is not JSON"),
        ("t.json", "[]", "must be an object"),
        ("t.toml", "", "It has no workers"),
        ("t.csv", "0,CA", "neither TOML nor JSON"),
        ("t.json", '{"0": ["CA"], "0": ["NV"]}', "Worker 0 is listed twice"),
        ("t.toml", '0 = ["CA"]\n00 = ["NV"]', "Worker 0 is listed twice"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, text: str, reason: str) -> None:
    with pytest.raises(InputFileError, match=reason):
        read_table(written(tmp_path, text, name))


def test_a_table_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"nowhere\.toml cannot be read"):
        read_table(tmp_path / "nowhere.toml")


def test_while_all_are_there_a_table_gives_what_it_says() -> None:
    table = AssignmentTable({0: ["CA", "NV", "UT"], 1: ["TX"]})
    assert table.assign(["CA", "NV", "UT", "TX"], [0, 1]) == {0: ("CA", "NV", "UT"), 1: ("TX",)}


def test_what_an_absent_worker_has_and_what_the_table_does_not_know_goes_to_those_with_the_fewest() -> None:
    table = AssignmentTable({0: ["CA", "ID", "NV", "UT"], 1: ["TX"], 2: ["OR", "WA"]})
    shares = table.assign(["CA", "ID", "NV", "UT", "TX", "OR", "WA", "AZ"], [0, 1])
    assert shares == {0: ("CA", "ID", "NV", "UT"), 1: ("AZ", "OR", "TX", "WA")}


def test_a_list_has_one_partition_a_line(tmp_path: Path) -> None:
    assert read_partitions(written(tmp_path, "\ufeff# west\nCA\n\n NV \r\n", "p.txt")) == ("CA", "NV")


def test_a_list_with_a_partition_twice_or_with_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="lists CA and NV more than once"):
        read_partitions(written(tmp_path, "CA\nNV\nCA\nNV\n", "p.txt"))
    with pytest.raises(InputFileError, match="no partitions"):
        read_partitions(written(tmp_path, "# none\n", "p.txt"))


def test_a_list_on_the_command_line_is_checked_alike() -> None:
    assert listed_partitions("CA, TX") == ("CA", "TX")
    assert listed_partitions("us-states") == tuple(US_STATES)
    with pytest.raises(UsageError, match="lists CA more than once"):
        listed_partitions("CA,TX,CA")
    with pytest.raises(UsageError, match="Separate them with commas"):
        listed_partitions("CA,,TX")
