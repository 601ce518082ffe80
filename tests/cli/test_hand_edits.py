"""People edit the files of a queue: the run still ends, no job runs twice, and the commands say what is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Shell

HANDLERS = """
from longshore import handler


@handler("page", retries=0)
async def page(job):
    with open("ran.txt", "a") as ran:
        ran.write(f"{job.payload['n']}\\n")
    return job.payload["n"]
"""


class Edited:
    """A queue with three jobs of run r, and a function that lets a person edit its files."""

    def __init__(self, here: Path, shell: Shell, medium: str) -> None:
        self.here, self.shell, self.medium = here, shell, medium
        self.url = f"dir://{here}/jobs"
        if medium == "git":
            self.git(here, "init", "--quiet", "--bare", "queue.git")
            self.url = f"git+file://{here}/queue.git"
        (here / "pages.py").write_text(HANDLERS)
        self.submit(range(3))

    def submit(self, numbers: range) -> None:
        lines = "".join(json.dumps({"payload": {"n": n}}) + "\n" for n in numbers)
        (self.here / "jobs.jsonl").write_text(lines)
        done = self.longshore("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r")
        assert done.returncode == 0, done.stderr

    def git(self, folder: Path, *arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=p", "-c", "user.email=p@x", *arguments], cwd=folder, check=True)

    def edit(self, change: Callable[[Path], object]) -> None:
        if self.medium == "directory":
            change(self.here / "jobs")
            return
        shutil.rmtree(self.here / "clone", ignore_errors=True)
        self.git(self.here, "clone", "--quiet", "--branch", "longshore-1", "queue.git", "clone")
        change(self.here / "clone")
        self.git(self.here / "clone", "add", "--all")
        self.git(self.here / "clone", "commit", "--quiet", "--message", "by hand")
        self.git(self.here / "clone", "push", "--quiet")

    def longshore(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.shell(*arguments, "--queue", self.url)

    def work(self) -> list[str]:
        """Work until the run is done, and return which jobs ran."""
        done = self.longshore("work", "pages.py", "--run", "r", "--until-done", "--lease-seconds", "5")
        assert done.returncode == 0, done.stderr
        ran = self.here / "ran.txt"
        return sorted(ran.read_text().split()) if ran.exists() else []


@pytest.fixture(params=["directory", "git"])
def edited(request: pytest.FixtureRequest, here: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Edited:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    return Edited(here, shell, request.param)


def job_files(folder: Path) -> list[Path]:
    found = sorted((folder / ("pending" if (folder / "pending").exists() else "available_work")).rglob("*.json"))
    return sorted((path for path in found if '"payload"' in path.read_text()), key=number_in)


def number_in(path: Path) -> str:
    """The number in the name of a job's file, which follows the job's name on a branch."""
    return path.name.rpartition("~")[2].partition("-")[0].partition(".")[0]


def the_end(edited: Edited, rejected: int) -> None:
    """Check that every command says how many jobs are missing, in words and by its exit code."""
    waited = edited.longshore("wait", "r", "--timeout", "10s")
    assert waited.returncode == 1, waited.stderr
    assert f"{rejected} file" in waited.stderr
    assert "rejected or removed by hand" in " ".join(waited.stderr.split())
    assert "✓" not in waited.stderr
    found = json.loads(edited.longshore("wait", "r", "--json").stdout)
    assert (found["ended"], found["set_aside"], found["remaining"]) == ("rejected", rejected, 0)
    assert json.loads(edited.longshore("status", "r", "--json").stdout)["set_aside"] == rejected


def test_a_run_whose_job_file_was_removed_ends_and_says_so(edited: Edited) -> None:
    edited.edit(lambda folder: job_files(folder)[0].unlink())
    assert len(edited.work()) == 2
    the_end(edited, 1)


def test_a_run_with_a_damaged_job_is_not_reported_as_complete(edited: Edited) -> None:
    edited.edit(lambda folder: job_files(folder)[0].write_text("{"))
    assert len(edited.work()) == 2
    the_end(edited, 1)


def test_a_copy_of_a_job_under_another_number_does_not_run(edited: Edited) -> None:
    def copy(folder: Path) -> None:
        first = job_files(folder)[0]
        number = number_in(first)
        shutil.copy(first, first.with_name(first.name.replace(number, f"{9:0{len(number)}d}", 1)))

    edited.edit(copy)
    assert edited.work() == ["0", "1", "2"]
    the_end(edited, 1)


def test_a_run_of_which_every_file_was_removed_is_not_said_to_have_never_been(edited: Edited) -> None:
    def remove(folder: Path) -> None:
        for path in job_files(folder):
            path.unlink()

    edited.edit(remove)
    assert edited.work() == []
    for command in ("wait", "status"):
        said = edited.longshore(command, "r")
        assert said.returncode == 2
        assert "No job of run 'r' is left in " in said.stderr
        assert ": 3 files of it were rejected or removed by hand. See " in said.stderr


def change_job(path: Path, **fields: object) -> None:
    # The file of a folder ends with a seal behind the JSON.
    job, end = json.JSONDecoder().raw_decode(text := path.read_text())
    path.write_text(json.dumps({**job, **fields}) + text[end:])


@pytest.mark.parametrize(
    ("edited", "ran", "rejected"), [("directory", "12", 1), ("git", "129", 0)], indirect=["edited"]
)
def test_a_changed_payload_runs_as_it_was_changed_or_not_at_all(edited: Edited, ran: str, rejected: int) -> None:
    edited.edit(lambda folder: change_job(job_files(folder)[0], payload={"n": 9}))
    assert edited.work() == [*ran]
    if rejected:
        the_end(edited, rejected)
    else:
        assert edited.longshore("wait", "r").returncode == 0


def test_a_job_under_the_key_of_another_is_one_rejected_file(edited: Edited) -> None:
    def same_key(folder: Path) -> None:
        first, second = job_files(folder)[:2]
        change_job(second, key=json.JSONDecoder().raw_decode(first.read_text())[0]["key"])

    edited.edit(same_key)
    assert edited.work() == ["0", "2"]
    the_end(edited, 1)


@pytest.mark.parametrize("edited", ["directory"], indirect=True)
@pytest.mark.parametrize("removed", ["journal", "keys"])
def test_a_folder_without_its_journal_or_its_keys_runs_every_job_once(edited: Edited, removed: str) -> None:
    edited.edit(lambda folder: shutil.rmtree(folder / removed))
    assert edited.work() == ["0", "1", "2"]
    assert edited.longshore("wait", "r").returncode == 0


def test_a_run_without_edits_is_complete(edited: Edited) -> None:
    assert edited.work() == ["0", "1", "2"]
    assert edited.longshore("wait", "r").returncode == 0


@pytest.mark.parametrize("edited", ["git"], indirect=True)
@pytest.mark.parametrize("worked_before", [False, True])
def test_an_emptied_longshore_json_loses_no_job(edited: Edited, worked_before: bool) -> None:
    if worked_before:
        edited.work()
    edited.edit(lambda folder: (folder / "longshore.json").write_text("{}"))
    edited.submit(range(6))
    assert edited.work() == ["0", "1", "2", "3", "4", "5"]
    assert edited.longshore("wait", "r").returncode == 0
    found = json.loads(edited.longshore("status", "r", "--json").stdout)
    assert found["completed"] == 6


@pytest.mark.parametrize("edited", ["git"], indirect=True)
def test_removed_counters_are_restored_from_the_jobs(edited: Edited) -> None:
    edited.edit(lambda folder: shutil.rmtree(folder / "lanes"))
    edited.submit(range(4))
    assert edited.work() == ["0", "1", "2", "3"]
    assert edited.longshore("wait", "r").returncode == 0


@pytest.mark.parametrize("edited", ["git"], indirect=True)
def test_two_jobs_with_one_number_are_one_job_and_one_rejected_file(edited: Edited) -> None:
    def renumber(folder: Path) -> None:
        first, second = job_files(folder)[:2]
        second.rename(second.with_name(second.name.replace(number_in(second), number_in(first), 1)))

    edited.edit(renumber)
    assert len(edited.work()) == 2
    the_end(edited, 1)
