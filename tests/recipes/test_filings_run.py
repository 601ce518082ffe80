"""The recipe `filings`, end to end: replica, coordinator and workers are real processes, and some are killed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.recipes.filings_scene import FilingsFolder, FilingsReplica
from tests.recipes.yellowpages import in_order
from tests.waiting import wait_until

QUICK = ("--rate", "1000", "--seconds", "0", "--slow-seconds", "0.3", "--troubled", "0.4")
"""The site is fast, and four of ten pages fail when they are asked for first."""

MakeReplica = Callable[..., FilingsReplica]
MakeFolder = Callable[..., FilingsFolder]


@pytest.fixture
def make_replica() -> Iterator[MakeReplica]:
    made: list[FilingsReplica] = []

    def make(*options: str) -> FilingsReplica:
        made.append(FilingsReplica(*options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def make_folder(tmp_path: Path) -> Iterator[MakeFolder]:
    made: list[FilingsFolder] = []

    def make(replica: FilingsReplica, name: str = "here", **variables: str) -> FilingsFolder:
        made.append(FilingsFolder(tmp_path / name, replica, **variables))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


def wait_until_read(filings: int, *folders: FilingsFolder) -> None:
    """Wait until the logs have this many filings."""
    wait_until(lambda: sum(each.read() for each in folders) >= filings)


def kill_a_worker(folder: FilingsFolder) -> None:
    """End one worker with signal 9."""
    workers = folder.workers()
    assert workers
    random.choice(workers).kill()


@pytest.mark.ledger("C1", "C2", "C3", "C4")
def test_all_that_is_true_is_found_once_although_workers_are_killed(
    make_replica: MakeReplica, make_folder: MakeFolder, tmp_path: Path
) -> None:
    replica = make_replica(*QUICK)
    # Two machines: each has its own settings and cache, and the volume with the queue and the records is shared.
    shared = {
        "QUEUE_DIR": str(tmp_path / "volume" / "queue"),
        "LONGSHORE_DATA_FOLDER": str(tmp_path / "volume" / "data"),
    }
    first, second = (make_folder(replica, name, **shared) for name in ("first", "second"))
    said = first.run("filings.coordinator", "--year", "2010").stdout
    assert "40 filings of 2010 added to run filings-2010; 0 were there already." in said
    assert "lines of the lists could not be read" in said
    again = first.run("filings.coordinator", "--year", "2010").stdout
    assert "\n0 filings of 2010 added to run filings-2010; 40 were there already." in "\n" + again
    workers = [each.start("filings.worker", "--until-done") for each in (first, second)]
    for number, folder in ((6, first), (14, second), (20, first)):
        wait_until_read(number, first, second)
        kill_a_worker(folder)
    for folder, process in zip((first, second), workers, strict=True):
        folder.finish(process)
    assert in_order(second.all_records("filings-2010")) == in_order(replica.truth(2010))
    assert first.counts("filings-2010") == {"claimed": 0, "completed": 40, "failed": 0, "pending": 0}
    pages = {path.name for folder in (first, second) for path in folder.folder.glob("data/pages/*.html")}
    assert len(pages) == 40
    counts = replica.counts()
    assert "403 without a contact" not in counts
    assert len([name for name in counts if name.startswith("first time: ")]) == 6, "every trouble was met"
    ended = second.run("filings.coordinator", "--wait", "--run", "filings-2010").stdout
    assert "Run filings-2010 completed." in ended
    assert "filings    40 read, 0 failed, 0 left" in ended
    assert re.search(r"facts +\d+ company, \d+ event, \d+ person, \d+ relation, \d+ role; 0 values dropped", ended)
