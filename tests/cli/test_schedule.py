"""`longshore schedule`: made, listed, started, removed; and real workers start what is due, once."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.waiting import wait_until

from longshore.media import open_queue
from longshore.runs.schedules.schedule import keeping, put, schedule_of
from longshore.runs.schedules.timetable import Timetable

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

Says = Callable[..., str]
Refused = Callable[..., str]

NIGHTLY = ("--cron", "0 2 * * *")


@pytest.fixture
def scraper(here: Path) -> Path:
    """A folder with one scraper for workers, and one with mode single."""
    (here / "pages.py").write_text(
        "from longshore import handler\n\n@handler('page', retries=1)\nasync def page(job):\n    return 1\n"
    )
    (here / "urls.txt").write_text("https://a.org/1\nhttps://a.org/2\n")
    (here / "longshore.toml").write_text(
        '[scrapers.India]\nhandler = "pages.py"\nurls = "urls.txt"\nmode = "distributed"\n'
        '[scrapers.Local]\nhandler = "pages.py"\nurls = "urls.txt"\n'
        '[scrapers.Empty]\nhandler = "pages.py"\nmode = "distributed"\n'
    )
    return here


def test_a_scraper_is_scheduled_under_its_own_name(scraper: Path, says: Says) -> None:
    said = says("schedule", "India", *NIGHTLY, "--zone", "Europe/Berlin")
    assert said.startswith("India is scheduled; the next run is at ")
    assert said.split("at ")[1][11:16] == "02:00"
    (one,) = json.loads(says("schedule", "--json"))
    assert (one["name"], one["cron"], one["zone"], one["what"], one["kind"]) == (
        "India",
        "0 2 * * *",
        "Europe/Berlin",
        "scraper India",
        "page",
    )
    assert (one["last"], one["last_run"], one["state"], one["trouble"]) == (None, None, "waiting", None)
    assert one["next"] == Timetable("0 2 * * *", "Europe/Berlin").after(datetime.now(UTC).timestamp())


def test_a_run_that_is_asked_for_has_the_jobs_and_attempts_of_the_scraper(scraper: Path, says: Says) -> None:
    says("schedule", "india", *NIGHTLY, "--scraper", "India", "--max-depth", "2")
    said = says("schedule", "india", "--now")
    assert said.endswith("is submitted: 2 jobs.\n")
    jobs = json.loads(says("jobs", "--json"))
    assert {(job["kind"], job["max_attempts"], job["run"]) for job in jobs} == {("page", 2, said.split()[1])}
    one = json.loads(says("schedule", "india", "--json"))
    assert (one["last_run"], one["last_jobs"], one["max_depth"]) == (said.split()[1], 2, 2)


def test_a_file_and_standard_input_are_remembered_by_their_content(here: Path, says: Says, shell: Shell) -> None:
    (here / "urls.txt").write_text("https://a.org/1\n")
    says("schedule", "file", *NIGHTLY, "--urls-file", "urls.txt", "--kind", "page")
    done = shell("schedule", "piped", *NIGHTLY, "--urls-file", "-", "--kind", "page", stdin="https://a.org/1\n" * 2)
    assert done.returncode == 0, done.stderr
    (here / "urls.txt").unlink()
    found = {one["name"]: one["what"] for one in json.loads(says("schedule", "--json"))}
    assert found == {"file": "1 job", "piped": "2 jobs"}
    assert says("schedule", "piped", "--now").endswith("is submitted: 1 job.\n")


def test_the_list_says_when_each_runs_and_ran(scraper: Path, says: Says) -> None:
    assert says("schedule") == "There are no schedules. To make one: longshore schedule NAME --cron '0 2 * * *'\n"
    says("schedule", "India", *NIGHTLY, "--now")
    head, row = says("schedule").splitlines()
    assert head.split("  ")[0] == "name"
    for part in ("India", "0 2 * * *", "scraper India", "02:00 UTC", "India_2", "waiting"):
        assert part in row
    assert len(row) <= 100


def test_a_schedule_that_is_removed_is_gone(scraper: Path, says: Says, refused: Refused) -> None:
    says("schedule", "India", *NIGHTLY)
    assert says("schedule", "--remove", "India") == "India is removed. The runs that it started stay.\n"
    assert "There is no schedule 'India'. There are none." in refused("schedule", "--remove", "India")
    assert "There is no schedule 'India'" in refused("schedule", "India", "--now")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["India", "--cron", "hourly"], "takes five fields"),
        (["India", *NIGHTLY, "--zone", "Moon"], "no time zone 'Moon'"),
        (["Indai", *NIGHTLY], "Did you mean India? Or name the jobs: --urls-file FILE --kind KIND."),
        (["Local", *NIGHTLY], "mode single"),
        (["Empty", *NIGHTLY], "has no source of jobs"),
        (["a b", *NIGHTLY], "cannot be the name of a schedule"),
        (["x", *NIGHTLY, "--urls-file", "urls.txt"], "--kind KIND"),
        (["x", *NIGHTLY, "--urls-file", "urls.txt", "--jobs-file", "y", "--kind", "k"], "one of them"),
        (["x", *NIGHTLY, "--urls-file", "urls.txt", "--kind", "page", "--scraper", "India"], "not both"),
        (["India", *NIGHTLY, "--kind", "page"], "--kind goes with"),
        (["India", *NIGHTLY, "--max-depth", "-1"], "--max-depth cannot be -1"),
        (["India", "--urls-file", "urls.txt"], "Say when, with --cron"),
        (["--now"], "Name the schedule"),
        (["India", "--remove", "India"], "nothing goes beside it"),
    ],
)
def test_what_makes_no_sense_is_refused(scraper: Path, refused: Refused, arguments: list[str], message: str) -> None:
    assert message in refused("schedule", *arguments)
    assert not (scraper / ".longshore").exists()


def make_due(folder: Path, name: str) -> None:
    """As if the schedule had been made an hour ago, and been due half an hour ago."""

    async def change() -> None:
        queue = await open_queue(f"sqlite:///{folder}/.longshore/queue.db")
        state = keeping(queue)
        now, there = await schedule_of(state, name)
        minute = datetime.fromtimestamp(now - 1800, UTC).minute
        due = msgspec.structs.replace(there.schedule, made=now - 3600, when=Timetable(f"{minute} * * * *"))
        assert await put(state, there.note, due)
        await queue.close()

    asyncio.run(change())


def test_two_workers_start_one_run_of_what_is_due_and_work_on_it(shell: Shell) -> None:
    shell.urls(20)
    assert shell("schedule", "often", *NIGHTLY, "--urls-file", "urls.txt", "--kind", "page").returncode == 0
    make_due(shell.folder, "often")
    assert shell.json("schedule", "often", "--json")["state"] == "due"
    workers = [shell.start("work", "pages.py", "--poll-interval", "0.2") for _ in range(2)]
    try:
        wait_until(lambda: [job["state"] for job in shell.json("jobs", "--json")] == ["completed"] * 20, looks=100)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        said = "".join(worker.communicate(timeout=60)[1] for worker in workers)
    assert len({job["run"] for job in shell.json("jobs", "--json")}) == 1
    assert said.count("Schedule often is due: submitting run often_") == 1
    one = shell.json("schedule", "often", "--json")
    assert (one["state"], one["last_jobs"]) == ("waiting", 20)


def test_a_run_with_a_limit_leaves_deeper_jobs_out_and_says_so(shell: Shell) -> None:
    shell.write(
        "crawl.py",
        "from longshore import Result, handler, new_job\n\n"
        "@handler('page')\n"
        "async def page(job):\n"
        "    url = job.payload['url']\n"
        "    return Result(url, [new_job('page', {'url': f'{url}/{n}'}) for n in (1, 2)])\n",
    )
    shell.urls(1)
    submitted = shell.json("submit", "page", "--urls-file", "urls.txt", "--max-depth", "2")
    done = shell("work", "crawl.py", "--until-done")
    assert done.returncode == 0, done.stderr
    found = [(job["run"], job["state"]) for job in shell.json("jobs", "--json")]
    assert found == [(submitted["run_id"], "completed")] * (1 + 2 + 4)
    assert "Follow-on jobs are left out" in done.stderr
    assert "too_deep=8" in done.stderr
