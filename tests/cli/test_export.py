"""`longshore export`: what a run found, where it was asked for."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.kept_run import RUN, run_broken

from longshore import new_job, open_queue
from longshore.cli import main
from longshore.lease import Want, WorkerId
from longshore.outcome import Completed, Settlement

Says = Callable[..., str]
Refused = Callable[..., str]

QUEUE = "sqlite:///.longshore/queue.db"


async def _put(completed: int, pending: int) -> None:
    queue = await open_queue(QUEUE)
    await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run="r") for n in range(completed + pending)])
    leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=completed))
    await queue.settle([Settlement(lease, Completed({"title": lease.job.id})) for lease in leases])
    await queue.close()


@pytest.fixture
def a_run(here: Path) -> Path:
    asyncio.run(_put(3, 0))
    return here


def test_results_go_to_standard_output_unless_a_file_is_named(a_run: Path, says: Says) -> None:
    lines = [json.loads(line) for line in says("export", "r").splitlines()]
    assert [line["result"]["title"] for line in lines] == ["1", "2", "3"]
    assert says("export", "r", "--format", "csv").splitlines()[0] == "run,kind,key,url,title"


def test_the_name_of_the_file_says_what_it_is(a_run: Path, says: Says) -> None:
    assert says("export", "r", "-o", "x.csv.gz") == ""
    assert gzip.decompress((a_run / "x.csv.gz").read_bytes()).startswith(b"run,kind,key,url,title\n")
    says("export", "r", "-o", "x.db", "--sorted")
    with closing(sqlite3.connect(a_run / "x.db")) as database:
        keys = [key for (key,) in database.execute("SELECT key FROM results")]
    assert keys == sorted(keys)
    assert len(keys) == 3


def test_the_person_is_told_what_was_written_and_what_is_to_come(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_put(2, 1))
    assert main(["export", "r", "-o", "x.csv"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "2 results of r in x.csv (csv, 5 columns)\n1 job of r was not finished yet.\n"


def test_records_are_exported_of_one_kind_or_of_all(here: Path, says: Says, refused: Refused) -> None:
    run_broken(here, 6)
    for given in (("--records",), ("--records", "item"), ("--records", "--sorted"), ("--records=item",)):
        lines = [json.loads(line) for line in says("export", RUN, *given).splitlines()]
        assert sorted(line["data"]["n"] for line in lines) == [1, 2, 2, 3, 4, 5, 5, 6]
    assert "It has: item." in refused("export", RUN, "--records", "page")
    assert "--data-folder" in refused("export", RUN, "--records", "--data-folder", "elsewhere")


def test_what_cannot_be_done_is_refused_before_anything_is_read(a_run: Path, refused: Refused) -> None:
    assert "There is no run 's'" in refused("export", "s")
    assert "There is no format 'xml'" in refused("export", "r", "--format", "xml")
    assert "does not imply a format" in refused("export", "r", "-o", "x.txt")
    assert "Name a file: -o results.parquet" in refused("export", "r", "--format", "parquet")
    assert "there is no folder none" in refused("export", "r", "-o", "none/x.csv")
    assert "may be the queue itself" in refused("export", "r", "-o", ".longshore/queue.db")


def test_a_reader_that_has_seen_enough_is_no_error(a_run: Path) -> None:
    asyncio.run(_put(4000, 0))
    command = f"{sys.executable} -m longshore export r | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=a_run, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 141
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_standard_output_without_room_is_one_message(a_run: Path, format_: str) -> None:
    command = [sys.executable, "-m", "longshore", "export", "r", "--format", format_]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, cwd=a_run, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "cannot be written to standard output: No space left on device" in done.stderr
    assert "fault of Longshore" not in done.stderr


def test_without_its_library_parquet_says_how_to_install_it(
    a_run: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install '.[parquet]' where Longshore was cloned" in refused("export", "r", "-o", "x.parquet")
