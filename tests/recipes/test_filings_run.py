"""The recipe `filings`, end to end: replica, coordinator and workers are real processes, and some are killed."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.task_server import clean_environment
from tests.recipes.filings_scene import FilingsFolder, FilingsReplica
from tests.recipes.yellowpages import MARK, RECIPES, in_order
from tests.waiting import wait_until

from filings import config
from filings.edgar.submission import read_submission
from filings.facts.rules import facts_of
from filings.graph.embedded import EmbeddedGraph
from filings.graph.rows import rows_of
from filings.graph.schema import RELATIONS
from filings.replica.layouts import file_of
from filings.replica.stories import filings
from longshore.settings import resolve

QUICK = ("--rate", "1000", "--seconds", "0", "--slow-seconds", "0.3", "--troubled", "0.25")
"""The site is fast, and a quarter of its pages fails when it is asked for first."""

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


Relation = tuple[str, str, str, str]


def in_graph(file: Path) -> Counter[Relation]:
    """The relations of a graph, without those that join several filings."""
    found = Counter[Relation]()
    with EmbeddedGraph(file) as graph:
        for kind in RELATIONS:
            rows = graph.query(f"MATCH (a)-[r:{kind}]->(b) RETURN a.id AS a, r.key AS key, b.id AS b")
            found.update((kind, row["a"], row["key"], row["b"]) for row in rows if kind != "HELD")
    return found


def relations_of(year: int) -> Counter[Relation]:
    """The relations that the filings of a year have, each once."""
    found = Counter[Relation]()
    for filing in filings():
        if filing.filed.year == year:
            read = read_submission(file_of(filing))
            company = read.company
            own = {
                "accession": filing.accession,
                "company": None if company is None or company.name is None else company.name.text,
                "cik": None if company is None or company.cik is None else company.cik.text,
            }
            for (kind, _, _), rows in rows_of(own, facts_of(read)[0]).relations.items():
                found.update((kind, row["start_id"], row["key"], row["end_id"]) for row in rows.values())
    return found


@pytest.mark.ledger("C1", "C2", "C3", "C4")
def test_all_that_is_true_is_found_once_although_workers_are_killed(
    make_replica: MakeReplica, make_folder: MakeFolder, tmp_path: Path
) -> None:
    replica = make_replica(*QUICK)
    # Two machines: each has its own settings and cache, and the volume with the queue and the records is shared.
    volume = tmp_path / "volume"
    shared = {
        "QUEUE_DIR": str(volume / "queue"),
        "LONGSHORE_DATA_FOLDER": str(volume / "data"),
        "FILINGS_GRAPH": str(volume / "graph.lbug"),
    }
    first, second = (make_folder(replica, name, **shared) for name in ("first", "second"))
    said = first.run("filings.coordinator", "--year", "2010").stdout
    assert "40 filings of 2010 added to run filings-2010; 0 were there already." in said
    assert "Lines of the lists that could not be read: " in said
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
    assert in_graph(volume / "graph.lbug") == relations_of(2010)
    pages = {path.name for folder in (first, second) for path in folder.folder.glob("data/pages/*.html")}
    assert len(pages) == 40
    counts = replica.counts()
    assert "403 without a contact" not in counts
    assert len([name for name in counts if name.startswith("first time: ")]) == 6, "every trouble was met"
    ended = second.run("filings.coordinator", "--wait", "--run", "filings-2010").stdout
    assert "Run filings-2010 completed." in ended
    assert "filings    40 read, 0 failed, 0 left" in ended
    assert re.search(r"facts +\d+ company, \d+ event, \d+ person, \d+ relation, \d+ role; 0 values dropped", ended)


@pytest.mark.ledger("C1", "C9")
def test_the_coordinator_leaves_at_once_and_a_later_wait_picks_the_run_up(
    make_replica: MakeReplica, make_folder: MakeFolder
) -> None:
    here = make_folder(make_replica(*QUICK))
    nothing = here.run("filings.coordinator", "--wait", "--queue-dir", "other/queue", code=None)
    assert "Traceback" not in nothing.stderr
    here.run("filings.coordinator", "--year", "1998", "--limit", "3", "--run", "first", "--queue-dir", "other/queue")
    here.run("filings.coordinator", "--year", "2010", "--limit", "5", "--run", "second", "--queue-dir", "other/queue")
    assert not (here.folder / "data" / "queue").exists()
    jobs = list((here.folder / "other" / "queue" / "pending").rglob("*.json"))
    assert len(jobs) == 8, "a file for each job"
    waiting = here.start("filings.coordinator", "--wait", "--queue-dir", "other/queue")
    wait_until(lambda: "0 of 5 done" in here.output())
    waiting.send_signal(signal.SIGINT)
    assert "The run goes on." in here.finish(waiting, code=130), "nothing is lost by it"
    waiting = here.start("filings.coordinator", "--wait", "--queue-dir", "other/queue")
    worker = here.start("filings.worker", "--until-done", "--workers", "1", "--queue-dir", "other/queue")
    here.finish(worker)
    said = here.finish(waiting)
    assert "Run second completed." in said, "the newest run that is not finished"
    assert " of 5 done" in said
    assert "filings    5 read, 0 failed, 0 left" in said
    assert "time " in said
    assert "No run has work left." in here.run("filings.coordinator", "--wait", "--queue-dir", "other/queue").stdout
    queue = ("--queue", "dir://other/queue")
    before = in_order(json.loads(here.run("longshore", "jobs", "--run", "second", "--json", *queue).stdout))
    here.run("longshore", "prune", "--run", "first", "--unfinished", "--yes", *queue)
    assert here.run("longshore", "status", "first", *queue, code=None).returncode == 2
    assert in_order(json.loads(here.run("longshore", "jobs", "--run", "second", "--json", *queue).stdout)) == before


@pytest.mark.ledger("C1", "C8")
@pytest.mark.parametrize(
    ("variables", "command", "said"),
    [
        ({}, ("coordinator",), "Which year? Give --year 2010, or --wait"),
        ({}, ("coordinator", "--year", "1971"), "lists no filings of 1971"),
        ({"USE_AI_EXTRACTION": "perhaps"}, ("coordinator", "--year", "2010"), "Write true or false."),
        ({"EDGAR_URL": ""}, ("coordinator", "--year", "2010"), "LONGSHORE_CONTACT=you@example.org"),
        ({"EDGAR_URL": "https://data.sec.gov/x"}, ("worker",), "LONGSHORE_CONTACT=you@example.org"),
        (
            {"USE_AI_EXTRACTION": "true", "OLLAMA_BASE_URL": "http://127.0.0.1:1"},
            ("worker",),
            "USE_AI_EXTRACTION=false",
        ),
        ({"NEO4J_URI": "bolt://127.0.0.1:1"}, ("worker",), "Fix: start Neo4j, or set NEO4J_URI"),
    ],
)
def test_each_trouble_ends_in_one_message(
    variables: dict[str, str],
    command: tuple[str, ...],
    said: str,
    make_replica: MakeReplica,
    make_folder: MakeFolder,
) -> None:
    contact = {} if variables.get("EDGAR_URL") is None else {"LONGSHORE_CONTACT": ""}
    here = make_folder(make_replica(*QUICK, "--troubled", "0"), **variables, **contact)
    done = here.run(f"filings.{command[0]}", *command[1:], code=None)
    assert done.returncode in (1, 2), done.stdout
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_live_source_is_asked_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"EDGAR_URL": "", "LONGSHORE_CONTACT": "me@example.org", "LONGSHORE_HOST_RATE": "50"}.items():
        monkeypatch.setenv(name, value)
    for name in ("QUEUE_DIR", "GITHUB_REPO_URL", "TASKMANAGER_API_URL", "LONGSHORE_QUEUE", "LONGSHORE_BLOCK_PAGES"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("LONGSHORE_HOST_DELAY", "0")
    config.prepare("dir://queue")
    assert config.is_live()
    assert resolve({}).host_rate == 9, "for all workers together"
    config.slow_down()
    assert resolve({}).host_delay.low == 1, "the coordinator takes what is left"


@pytest.mark.ledger("C1", "C4", "C7", "C9")
def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    page = (RECIPES / "filings" / "README.md").read_text()
    blocks = re.findall(r"^```sh[^\n]*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = ["longshore recipes copy filings .", *(line for block in blocks for line in block.splitlines())]
    environment = clean_environment() | {
        "LONGSHORE_STAGGER": "0",
        "LONGSHORE_HOST_FIRST_RATE": "20",
        MARK: str(tmp_path),
    }
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    replica: subprocess.Popen[str] | None = None
    said = dict[str, str]()
    try:
        for command in commands:
            if "filings.replica" in command:
                # Its port may be taken on the machine that tests.
                free = command.replace("--port 8060", "--port 0")
                assert free != command
                replica = subprocess.Popen(
                    shlex.split(free), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
                )
                assert replica.stdout is not None
                url, dotenv = replica.stdout.readline().split()[-1], tmp_path / ".env"
                dotenv.write_text(dotenv.read_text().replace("http://127.0.0.1:8060/Archives", url))
                continue
            done = subprocess.run(
                shlex.split(command),
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            said[command.split()[2] if command.startswith("python") else command.split()[1]] = done.stdout
        assert len(commands) == 10
        assert "0 missing, 0 invented, 0 repeated" in said["filings.check"]
        assert "p.name" in said["filings.cli"]
        assert len(list((tmp_path / "data" / "pages").glob("*.html"))) == 10
        assert (tmp_path / "roles.csv").read_text().count("\n") > 3
    finally:
        if replica is not None:
            replica.kill()
            replica.communicate()
