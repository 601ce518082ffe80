"""The recipe `yellowpages`, end to end: replica, workers and databases are real processes, and some are killed."""

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
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest
from tests.kit.task_server import clean_environment
from tests.recipes.yellowpages import MARK, RECIPES, Replica, Site, in_order
from tests.services.chromium import need_chromium
from tests.services.needing import needed
from tests.services.postgres import PostgresServer
from tests.waiting import wait_until

QUICK = ("--rate", "1000", "--seconds", "0", "--slow-seconds", "0.5", "--troubled", "0.3")
"""The site is fast, and every third page fails when it is asked for first."""
_schemas = count()

MakeReplica = Callable[..., Replica]


@pytest.fixture
def make_replica(tmp_path: Path) -> Iterator[MakeReplica]:
    made: list[Replica] = []

    def make(*options: str) -> Replica:
        made.append(Replica(tmp_path, *options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(replica: Replica, name: str = "site", **options: str) -> Site:
        made.append(Site(tmp_path / name, replica, **options))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


MakeSite = Callable[..., Site]


def in_postgres(server: PostgresServer) -> dict[str, str]:
    """A queue and a place for records in a PostgreSQL server, new for each call."""
    number = next(_schemas)
    return {
        "queue": f"{server.url}?schema=listings_{number}",
        "LONGSHORE_RECORDS_DATABASE": f"{server.url}?schema=found_{number}",
    }


def assert_perfect(site: Site, **choice: object) -> None:
    """Every record of the truth was found, with every field, once, and nothing else; as was every reason."""
    assert in_order(site.records()) == in_order(site.replica.truth(**choice))
    assert site.rejected() == site.replica.rejected(**choice)


def wait_until_scraped(site: Site, targets: int) -> None:
    """Wait until the logs have this many targets."""
    wait_until(lambda: site.scraped() >= targets)


def kill_a_worker(site: Site) -> None:
    """End one worker with signal 9."""
    workers = site.workers()
    assert workers
    random.choice(workers).kill()


@pytest.mark.ledger("B3", "B4", "B7", "B10", "B13", "B14", "B15")
@pytest.mark.parametrize("medium", ["sqlite", "postgres"])
def test_all_that_is_true_is_found_once_although_workers_are_killed(
    medium: str, make_replica: MakeReplica, make_site: MakeSite, request: pytest.FixtureRequest
) -> None:
    choice = {"states": "CA,DE,HI,VT", "cities": 3, "categories": 4}
    database = {} if medium == "sqlite" else in_postgres(request.getfixturevalue("server"))
    # A proxy rests after one failure, and a worker that pauses lives long enough to be killed.
    paced = {"MIN_DELAY_SECONDS": "0.2", "MAX_DELAY_SECONDS": "0.4", "PROXY_BLACKLIST_THRESHOLD": "1"}
    site = make_site(make_replica(*QUICK), **database, **paced)
    assert "48 targets added" in site.make_targets("CA,DE,HI,VT", 3, 4)
    assert "\n0 targets added" in "\n" + site.make_targets("CA,DE,HI,VT", 3, 4)
    fleet = site.start("--workers", "3")
    for targets in (3, 12):
        wait_until_scraped(site, targets)
        kill_a_worker(site)
    said = site.finish(fleet)
    assert "restarts" in said
    assert "; 0 restarts" not in said
    assert_perfect(site, **choice)
    counts = site.replica.counts()
    assert "direct" not in counts, "no request went out without a proxy"
    assert len([name for name in counts if name.startswith("first time: ")]) == 5, "every trouble was met"
    assert (
        site.run("yellowpages.check", "--states", "CA,DE,HI,VT", "--cities", "3", "--categories", "4").returncode == 0
    )
    by_state = site.run("longshore", "status", "listings").stdout
    assert all(f" {state} " in by_state for state in ("CA", "DE", "HI", "VT"))
    assert {path.name for path in (site.folder / "logs").iterdir()} >= {
        "fleet.log",
        *(f"worker_{n}.log" for n in range(3)),
    }
    assert "accepted=" in site.log("worker_0.log")
    assert " rests " in site.log("proxies.log")
    assert " of 50 rest: `longshore proxies` shows where and why." in said
    shown = site.run("longshore", "proxies").stdout
    unused = re.search(r"(\d+) (?:of the )?(?:\d+ )?prox(?:y|ies) (?:was|were) not used yet", shown)
    used = 50 - (int(unused[1]) if unused else 0)
    assert shown.count("http://127.0.0.1:") == used > 1, f"a line for each proxy that was used:\n{shown}"


@pytest.mark.ledger("B3", "B15")
def test_two_machines_share_one_database(
    make_replica: MakeReplica, make_site: MakeSite, server: PostgresServer
) -> None:
    replica, database = make_replica(*QUICK), in_postgres(server)
    # So slow that the second has started before the first has done all.
    slow = {"MIN_DELAY_SECONDS": "0.5", "MAX_DELAY_SECONDS": "0.6"}
    first = make_site(replica, "first", **slow, **database)
    second = make_site(replica, "second", **slow, **database)
    first.make_targets("all", 1, 1)
    fleets = [site.start("--workers", "2", LONGSHORE_WORKER_ID=site.folder.name) for site in (first, second)]
    for site, fleet in zip((first, second), fleets, strict=True):
        site.finish(fleet)
    assert first.scraped() + second.scraped() == 51
    assert min(first.scraped(), second.scraped()) > 0
    assert_perfect(
        first, states=",".join(sorted({row["searched_state"] for row in first.records()})), cities=1, categories=1
    )


@pytest.mark.ledger("B8", "B11", "B16")
def test_delays_are_changed_in_env_while_the_workers_run_and_ctrl_c_finishes_the_target(
    make_replica: MakeReplica, make_site: MakeSite
) -> None:
    site = make_site(make_replica(*QUICK), MIN_DELAY_SECONDS="3000", MAX_DELAY_SECONDS="3600")
    site.make_targets("DE,RI", 2, 5)
    fleet = site.start("--workers", "2")
    wait_until_scraped(site, 2)
    # With these delays it would not go on within the hour.
    told = site.run("longshore", "estimate", "listings", "--json")
    assert json.loads(told.stdout)["p50_seconds"] > 3600, told.stdout + told.stderr
    site.write_env(site.variables | {"MIN_DELAY_SECONDS": "0.3", "MAX_DELAY_SECONDS": "0.5"})
    wait_until_scraped(site, 6)
    assert "max_delay_seconds 3600 → 0.5 (.env)" in site.log("worker_0.log")
    fleet.send_signal(signal.SIGINT)
    said = site.finish(fleet)
    assert "completed" in said
    counts = site.counts()
    assert counts["claimed"] == 0
    assert counts["completed"] == site.scraped() >= 6
    site.write_env(site.variables | {"MIN_DELAY_SECONDS": "0", "MAX_DELAY_SECONDS": "0"})
    again = site.start("--workers", "2")
    site.finish(again)
    assert_perfect(site, states="DE,RI", cities=2, categories=5)


@pytest.mark.ledger("B7", "B11")
def test_another_terminal_stops_the_workers_gently(make_replica: MakeReplica, make_site: MakeSite) -> None:
    site = make_site(make_replica(*QUICK), MIN_DELAY_SECONDS="0.2", MAX_DELAY_SECONDS="0.4")
    site.make_targets("DE,RI", 3, 5)
    fleet = site.start("--workers", "2")
    wait_until_scraped(site, 2)
    assert site.run("longshore", "stop").returncode == 0
    site.finish(fleet)
    counts = site.counts()
    assert counts["claimed"] == 0
    assert 2 <= counts["completed"] == site.scraped() < 30


@pytest.mark.ledger("B5", "B6")
def test_the_plan_is_shown_and_nothing_starts_without_an_answer(make_replica: MakeReplica, make_site: MakeSite) -> None:
    site = make_site(make_replica(*QUICK), WORKER_COUNT="10")
    none = site.run("yellowpages.run", "--yes")
    assert (none.returncode, "python -m yellowpages.targets --states all" in none.stderr) == (2, True)
    site.make_targets("CA,TX,FL", 2, 2)
    plan = site.run("yellowpages.run", "--dry-run")
    assert plan.returncode == 0, plan.stderr
    rows = {line.split()[0]: line.split() for line in plan.stdout.splitlines()}
    assert rows["4"][1:] == ["DC,", "MA,", "NE,", "NJ,", "PA,", "UT", "6", "0"]
    assert [rows[str(number)][-1] for number in range(10)] == ["4", "4", "4", *["0"] * 7]
    assert "50 in" in plan.stdout
    assert "0 of 12 jobs done" in plan.stdout
    unanswered = site.run("yellowpages.run")
    assert (unanswered.returncode, "Add --yes" in unanswered.stderr) == (2, True)
    assert site.scraped() == 0
    site.finish(site.start("--test", LONGSHORE_STAGGER="2-3"))
    assert site.scraped() == 8, "workers 0 and 1, with their own states"
    starts = re.findall(r"^(\S+) worker \d started", site.log("fleet.log"), re.MULTILINE)
    first, second = map(datetime.fromisoformat, starts)
    # The log has whole seconds.
    assert (second - first).total_seconds() >= 1
    left = site.run("yellowpages.run", "--dry-run", "--states", "FL,TX")
    assert "4 of 8 jobs done" in left.stdout
    assert "finished jobs took" in left.stdout


@pytest.mark.ledger("B5", "B16")
@pytest.mark.parametrize(
    ("variables", "arguments", "said"),
    [
        ({"YELLOWPAGES_MODE": "telnet"}, (), "YELLOWPAGES_MODE cannot be 'telnet'. Write http or browser."),
        ({"PROXY_FILE": "nosuch.txt"}, (), "nosuch.txt"),
        ({"PROXY_SELECTION_STRATEGY": "luck"}, (), "luck"),
        ({}, ("--states", "CA,XX"), "There is no state XX"),
        ({}, ("--states", "CA,TX"), "python -m yellowpages.targets --states TX"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_starts(
    make_replica: MakeReplica, make_site: MakeSite, variables: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    site = make_site(make_replica(*QUICK), **variables)
    site.make_targets("CA", 1, 1) if "PROXY_SELECTION_STRATEGY" not in variables else None
    done = site.run("yellowpages.run", "--yes", *arguments)
    assert done.returncode in (1, 2), done.stdout
    assert said in done.stdout + done.stderr
    assert site.scraped() == 0


def test_a_missing_env_is_named_with_the_command_that_makes_it(make_replica: MakeReplica, make_site: MakeSite) -> None:
    site = make_site(make_replica(*QUICK))
    (site.folder / ".env").unlink()
    done = site.run("yellowpages.run", "--yes")
    assert (done.returncode, "cp yellowpages/.env.example .env" in done.stderr) == (2, True)


@pytest.mark.ledger("B12")
def test_refused_workers_slow_down_and_lose_nothing(make_replica: MakeReplica, make_site: MakeSite) -> None:
    # Three addresses: a token bucket, a sliding window, and one that answers with block pages.
    site = make_site(make_replica("--rate", "4", "--seconds", "0", "--slow-seconds", "0", "--proxies", "3"))
    site.make_targets("DE,VT", 3, 8)
    site.finish(site.start("--workers", "4"))
    assert_perfect(site, states="DE,VT", cities=3, categories=8)
    counts = Counter(site.replica.counts())
    refused = counts["429 with Retry-After"] + counts["429 without Retry-After"]
    assert 0 < refused < counts["served"]
    assert site.counts()["completed"] == 48


@pytest.mark.ledger("B9")
def test_a_browser_finds_the_same_and_is_replaced(make_replica: MakeReplica, make_site: MakeSite) -> None:
    need_chromium()
    settings = {"YELLOWPAGES_MODE": "browser", "MAX_TARGETS_PER_BROWSER": "4"}
    site = make_site(make_replica("--rate", "1000", "--seconds", "0"), **settings)
    site.make_targets("HI,VT", 2, 3)
    fleet, browsers = site.start("--workers", "1"), set[int]()

    def ended() -> bool:
        browsers.update(site.browsers())
        return fleet.poll() is not None

    wait_until(ended)
    assert "Chromium, by Playwright" in site.finish(fleet)
    # One after another: each has four pages.
    assert len(browsers) >= 3
    assert_perfect(site, states="HI,VT", cities=2, categories=3)


@pytest.mark.ledger("B3", "B10", "B15")
def test_a_whole_country_is_collected_while_workers_and_the_database_are_killed(
    make_replica: MakeReplica, make_site: MakeSite, *, long: bool
) -> None:
    if not long:
        pytest.skip("the long form: --long")
    with needed():
        server = PostgresServer(fsync=True)
    with server:
        site = make_site(make_replica("--rate", "1000", "--troubled", "0.2"), **in_postgres(server))
        site.make_targets("all", 3, 6)
        fleet = site.start("--workers", "10")
        for turn in range(1, 9):
            wait_until_scraped(site, turn * 90)
            kill_a_worker(site)
            if turn % 3 == 0:
                server.restart("immediate")
        site.finish(fleet)
        states = ",".join(sorted({row["searched_state"] for row in site.records()}))
        assert_perfect(site, states=states, cities=3, categories=6)


@pytest.mark.ledger("B1", "B5", "B14", "B15")
def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    page = (RECIPES / "yellowpages" / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    environment = clean_environment() | {"LONGSHORE_STAGGER": "0", MARK: str(tmp_path)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    replica: subprocess.Popen[str] | None = None
    try:
        for command in commands:
            if "yellowpages.replica" in command:
                # Its port may be taken on the machine that tests.
                free = command.replace("--port 8020", "--port 0")
                assert free != command
                replica = subprocess.Popen(
                    shlex.split(free), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
                )
                assert replica.stdout is not None
                url, dotenv = replica.stdout.readline().split()[-1], tmp_path / ".env"
                dotenv.write_text(dotenv.read_text().replace("http://127.0.0.1:8020", url))
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
        assert "0 missing, 0 invented, 0 repeated" in done.stdout
        assert len(commands) == 11
        assert (tmp_path / "listings.csv").read_text().startswith("listing_id,")
    finally:
        if replica is not None:
            replica.kill()
            replica.communicate()
