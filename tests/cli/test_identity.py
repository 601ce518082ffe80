"""Jobs that share a URL: nothing is dropped in silence, whichever command is used and whichever medium holds them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Shell

SEARCH = """
from longshore import Result, handler, new_job


@handler("search"{identity})
async def search(job, kit):
    first = "page" not in job.payload
    pages = [new_job("search", {{"url": job.payload["url"], "page": page}}) for page in range(2, 6)] if first else []
    return Result(job.payload.get("page", 1), pages)
"""
FIX = '@handler("search", identity=("url", "page"))'
ROWS = [{"url": "https://shop.example/search", "page": page} for page in (1, 2, 3)]


def queue_in(folder: Path, scheme: str) -> str:
    if scheme == "git":
        subprocess.run(["git", "init", "-q", "--bare", str(folder / "repo.git")], check=True)
    return {"sqlite": f"{folder}/q.db", "dir": f"dir://{folder}/q", "git": f"git+file://{folder}/repo.git"}[scheme]


def set_up(shell: Shell, identity: str = "") -> None:
    shell.write("search.py", SEARCH.format(identity=identity))
    shell.write("urls.txt", "https://shop.example/search\n")


@pytest.mark.parametrize("scheme", ["sqlite", "dir", "git"])
def test_every_command_tells_of_result_pages_that_were_left_out(shell: Shell, scheme: str) -> None:
    set_up(shell)
    queue = ("--queue", queue_in(shell.folder, scheme))
    ran = shell("run", "search.py", "--urls-file", "urls.txt", "--run", "one", *queue)
    assert ran.returncode == 0, ran.stderr
    for told in (
        " ".join(ran.stderr.split()),
        " ".join(shell("wait", "one", *queue).stderr.split()),
        shell("status", "one", *queue).stdout,
        shell("status", *queue).stdout,
        "".join(path.read_text() for path in (shell.folder / ".longshore" / "logs" / "one").iterdir()),
    ):
        assert "differ in: page." in told
        assert FIX in told
    expected = {"one": {"search": {"jobs": 4, "fields": {"page": 4}}}}
    for command in ("status", "wait"):
        assert json.loads(shell(command, "one", "--json", *queue).stdout)["differing_duplicates"] == expected


def test_the_fix_that_is_told_brings_every_page(shell: Shell) -> None:
    set_up(shell, ', identity=("url", "page")')
    ran = shell("run", "search.py", "--urls-file", "urls.txt", "--run", "one")
    assert "5 completed" in ran.stderr
    assert "duplicates" not in ran.stderr
    assert sorted(json.loads(line)["result"] for line in (shell.folder / "results.jsonl").read_text().splitlines()) == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_the_other_fix_ends_the_notice(shell: Shell) -> None:
    set_up(shell, ', identity=("url",)')
    ran = shell("run", "search.py", "--urls-file", "urls.txt", "--run", "one")
    assert "1 completed" in ran.stderr
    assert "duplicates" not in ran.stderr + shell("status", "one").stdout


def test_a_plain_handler_and_a_worker_class_declare_it_too(shell: Shell) -> None:
    shell.write(
        "search.py",
        """
from longshore import Result, Worker, handler, new_job

@handler("start")
def start(job, kit):
    return Result(None, [new_job("search", {"url": "https://a.example/", "page": page}) for page in (1, 2, 3)])

class Search(Worker):
    kinds = "search"
    identity = ("url", "page")
    def process_task(self, task):
        return task.params["page"]
""",
    )
    shell.write("urls.txt", "https://shop.example/search\n")
    ran = shell("run", "search.py", "--kind", "start", "--urls-file", "urls.txt", "--run", "one")
    assert "4 completed" in ran.stderr, ran.stderr


class TestSubmit:
    @pytest.fixture
    def rows(self, here: Path) -> str:
        (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        return "rows.jsonl"

    def test_rows_that_share_a_url_are_refused_with_both_ways_out(
        self, here: Path, rows: str, refused: Callable[..., str]
    ) -> None:
        told = refused("submit", "search", "--jobs-file", rows)
        assert "rows.jsonl: Jobs 2, 3 share a URL with an earlier job (job 1: https://shop.example/search)" in told
        assert "--identity url,page." in told
        assert "--identity url." in told
        assert not (here / ".longshore").exists()

    @pytest.mark.parametrize(("identity", "new"), [("url,page", 3), (" page , url ", 3), ("url", 1)])
    def test_either_way_out_is_taken(self, rows: str, says: Callable[..., str], identity: str, new: int) -> None:
        done = json.loads(says("submit", "search", "--jobs-file", rows, "--identity", identity, "--run", "r"))
        assert done == {"run_id": "r", "submitted": new, "duplicates": 3 - new}
        assert "differing_duplicates" not in json.loads(says("status", "r", "--json"))

    def test_rows_of_a_csv_file_are_refused_too(self, here: Path, refused: Callable[..., str]) -> None:
        (here / "cities.csv").write_text("city,page\nAustin,1\nAustin,2\n")
        told = refused("submit", "search", "--csv", "cities.csv", "--template", "https://shop.example/{city}")
        assert "Job 2 shares a URL with an earlier job (job 1: https://shop.example/Austin) and differs in page" in told

    def test_jobs_that_differ_from_those_of_the_run_are_counted(
        self, here: Path, says: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        from longshore.cli import main

        for number, row in enumerate(ROWS):
            (here / f"{number}.jsonl").write_text(json.dumps(row))
        says("submit", "search", "--jobs-file", "0.jsonl", "--run", "r")
        assert main(["submit", "search", "--jobs-file", "1.jsonl", "--run", "r"]) == 0
        out, err = capsys.readouterr()
        expected = {"search": {"jobs": 1, "fields": {"page": 1}}}
        assert json.loads(out)["differing_duplicates"] == expected
        assert "1 job left out: the run has another job with the same URL, which differs in page." in err
        assert "--identity url,page" in err
        assert json.loads(says("status", "r", "--json"))["differing_duplicates"] == {"r": expected}

    def test_names_that_are_no_fields_are_refused(self, rows: str, refused: Callable[..., str]) -> None:
        assert "as in url,page" in refused("submit", "search", "--jobs-file", rows, "--identity", "url,,page")
        told = refused("submit", "search", "--jobs-file", rows, "--identity", "nothing")
        assert "none of the fields that make it different (nothing)" in told

    def test_a_pipe_is_not_read_twice_and_its_losses_are_told(self, shell: Shell) -> None:
        text = "".join(json.dumps(row) + "\n" for row in ROWS)
        done = shell("submit", "search", "--jobs-file", "-", "--run", "r", stdin=text)
        assert json.loads(done.stdout)["submitted"] == 1
        assert "2 jobs left out" in done.stderr


def test_run_refuses_rows_with_the_declaration_that_is_missing(here: Path, refused: Callable[..., str]) -> None:
    (here / "search.py").write_text(SEARCH.format(identity=""))
    (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert FIX in refused("run", "search.py", "--jobs-file", "rows.jsonl")


def test_a_scraper_and_its_schedule_use_the_declaration(
    here: Path, says: Callable[..., str], refused: Callable[..., str]
) -> None:
    (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (here / "longshore.toml").write_text(
        '[scrapers.shop]\nhandler = "search.py"\njobs = "rows.jsonl"\nmode = "distributed"\n'
    )
    (here / "search.py").write_text(SEARCH.format(identity=""))
    for command in (["start", "shop"], ["schedule", "shop", "--cron", "0 2 * * *"]):
        assert FIX in refused(*command)
    (here / "search.py").write_text(SEARCH.format(identity=', identity=("url", "page")'))
    assert json.loads(says("start", "shop"))["enqueued"] == 3
    says("schedule", "shop", "--cron", "0 2 * * *", "--now")
    assert all(run["pending"] == 3 for run in json.loads(says("status", "--json"))["runs"])


def test_a_schedule_of_a_file_takes_the_fields(
    here: Path, says: Callable[..., str], refused: Callable[..., str]
) -> None:
    (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    command = ["schedule", "shop", "--cron", "0 2 * * *", "--jobs-file", "rows.jsonl", "--kind", "search"]
    assert "--identity url,page" in refused(*command)
    says(*command, "--identity", "url,page", "--now")
    [run] = json.loads(says("status", "--json"))["runs"]
    assert run["pending"] == 3
    told = refused("schedule", "shop", "--cron", "0 2 * * *", "--identity", "url")
    assert "--identity goes with --urls-file or --jobs-file" in told
