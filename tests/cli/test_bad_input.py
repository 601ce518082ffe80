"""Bad input: one clear message each, the right exit code, nothing lost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from longshore.cli import main
from longshore.fleet.checks import CheckPlan, CheckVerdict
from longshore.fleet.checks.run_checks import run_checks

from .conftest import SMALLEST

Refused = Callable[..., str]


def test_an_unknown_handler_file(here: Path, refused: Refused) -> None:
    (here / "urls.txt").write_text("https://a.org/\n")
    assert "no handler file none.py" in refused("run", "none.py", "--urls-file", "urls.txt")
    assert "no handler file none.py" in refused("work", "none.py")


def test_a_handler_file_without_handlers(here: Path, refused: Refused) -> None:
    (here / "empty_handlers.py").write_text("x = 1\n")
    (here / "urls.txt").write_text("https://a.org/\n")
    assert "no handlers in empty_handlers.py" in refused("run", "empty_handlers.py", "--urls-file", "urls.txt")


def test_an_unknown_kind_is_answered_with_those_there_are(here: Path, refused: Refused) -> None:
    text = 'from longshore import handler\n\n@handler("{0}")\ndef {0}(job): ...\n\n'
    (here / "two_kinds.py").write_text(text.format("page") + text.format("list"))
    (here / "urls.txt").write_text("https://a.org/\n")
    for command in (
        ["run", "two_kinds.py", "--urls-file", "urls.txt", "--kind", "pdf"],
        ["work", "two_kinds.py", "--kinds", "page,pdf"],
    ):
        assert "no handler for 'pdf'. It handles: list, page." in refused(*command)
    assert "--kind: list, page" in refused("run", "two_kinds.py", "--urls-file", "urls.txt")


def test_a_malformed_jsonl_line_is_named_and_nothing_is_submitted(
    here: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "jobs.jsonl").write_text('{"n": 1}\n{"n": 2}\n{"n": \n')
    error = refused("submit", "doc", "--jobs-file", "jobs.jsonl")
    assert "jobs.jsonl, line 3: not JSON: " in error
    assert 'The line is: "{"n":". Nothing was submitted.' in error
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["remaining"] == 0


def test_a_file_without_jobs_is_refused_and_nothing_is_touched(here: Path, refused: Refused) -> None:
    (here / "empty.txt").write_text("# nothing yet\n")
    (here / "results.jsonl").write_text("of an earlier run\n")
    (here / "pages.py").write_text(SMALLEST)
    before = sorted(here.iterdir())
    for command in (["run", "pages.py"], ["submit", "page"]):
        error = refused(*command, "--urls-file", "empty.txt")
        assert "There are no jobs in empty.txt. Put one URL on each line" in error
        assert error.endswith("Nothing was submitted.\n")
    assert (here / "results.jsonl").read_text() == "of an earlier run\n"
    assert [path for path in sorted(here.iterdir()) if path.name != "__pycache__"] == before


def test_a_file_of_jobs_that_is_not_there(here: Path, refused: Refused) -> None:
    error = refused("submit", "doc", "--jobs-file", "none.jsonl")
    assert "none.jsonl cannot be read: No such file or directory. Nothing was submitted." in error


def test_no_file_of_jobs_or_two(here: Path, refused: Refused) -> None:
    assert "--urls-file FILE or --jobs-file FILE" in refused("submit", "doc")
    assert "one of them" in refused("submit", "doc", "--urls-file", "a", "--jobs-file", "b")


def test_a_queue_file_that_is_not_ours(here: Path, refused: Refused) -> None:
    (here / "notes.db").write_text("dear diary, this is not a queue at all\n" * 100)
    error = refused("status", "--queue", "sqlite:///notes.db", code=1)
    assert "notes.db" in error
    with sqlite3.connect(here / "other.db") as other:
        other.execute("CREATE TABLE customer (id INTEGER)")
    other.close()
    assert "other.db" in refused("status", "--queue", "sqlite:///other.db", code=1)
    assert (here / "notes.db").read_text().startswith("dear diary")


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["jobs"],
        ["show", "1"],
        ["retry", "--run", "r", "--yes"],
        ["cancel", "1"],
        ["work", "pages.py", "--until-done"],
        ["work", "pages.py", "--until-done", "--run", "r"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("url", ["sqlite:///nonexist/q.db", "dir://nonexist"])
def test_a_mistyped_queue_is_refused_by_what_only_looks_and_is_not_made(
    here: Path, refused: Refused, arguments: list[str], url: str
) -> None:
    (here / "pages.py").write_text(SMALLEST)
    error = refused(*arguments, "--queue", url)
    assert f"There is no queue at {url}, which --queue names. `longshore submit` makes one." in error
    assert not (here / "nonexist").exists()


def test_the_default_queue_that_is_not_there_yet_is_empty_and_is_not_made(
    here: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "pages.py").write_text(SMALLEST)
    for arguments, said in (
        (["status"], "has no jobs yet. `longshore submit` puts some in."),
        (["jobs"], "No such jobs."),
        (["work", "pages.py", "--until-done"], "has no jobs yet."),
    ):
        assert main(arguments) == 0
        assert said in "".join(capsys.readouterr())
    assert "There is no run 'r'" in refused("work", "pages.py", "--until-done", "--run", "r")
    assert "There is no job '1'" in refused("show", "1")
    assert not (here / ".longshore").exists()


@pytest.mark.parametrize("arguments", [["status"], ["work", "pages.py"], ["submit", "page", "--urls-file", "urls.txt"]])
def test_a_queue_in_memory_is_refused_for_no_other_command_could_see_it(
    here: Path, refused: Refused, arguments: list[str]
) -> None:
    (here / "pages.py").write_text(SMALLEST)
    (here / "urls.txt").write_text("https://a.org/\n")
    assert "cannot be used from the command line" in refused(*arguments, "--queue", "memory://")


def test_a_queue_of_a_newer_schema_is_refused(here: Path, capsys: pytest.CaptureFixture[str], refused: Refused) -> None:
    (here / "urls.txt").write_text("https://a.org/\n")
    assert main(["submit", "page", "--urls-file", "urls.txt", "--queue", "sqlite:///q.db"]) == 0
    capsys.readouterr()
    with sqlite3.connect(here / "q.db") as queue:
        queue.execute("PRAGMA user_version = 9999")
    queue.close()
    assert "newer" in refused("status", "--queue", "sqlite:///q.db", code=1)


def test_a_queue_that_is_a_folder(here: Path, refused: Refused) -> None:
    (here / "folder").mkdir()
    assert "folder" in refused("status", "--queue", "sqlite:///folder", code=1)


def test_an_unknown_scheme_is_answered_with_the_known_ones(here: Path, refused: Refused) -> None:
    error = refused("status", "--queue", "redis://me:hunter2@host/0")
    assert "redis://me:***@host/0" in error
    assert "sqlite://" in error


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:pa/S3cr3t@h/db",
        "postgresql://u:S3cr3t/pa@h/db",
        "postgresql://u:12/S3cr3t@h/db",
        "postgresql://u:12?S3cr3t@h/db",
        "postgresql://u:\u2100S3cr3t@h/db",
        "postgresql:/u:S3cr3t@h/db",
        "postgres//u:S3cr3t@h/db",
        "redis://u:pa/S3cr3t@h/db",
        "u:S3cr3t@h:q.git",
        "git+https://S3cr3t/x@h/q.git",
        "https://S3cr3t/x@h/q.git",
        "git+https://u:\u2100S3cr3t@h/q.git",
        "dir://postgres://u:S3cr3t@h/db",
    ],
)
def test_a_password_in_a_mistyped_queue_is_shown_by_no_command_and_nothing_is_made_or_asked(
    here: Path, refused: Refused, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    (here / "urls.txt").write_text("https://a.org/\n")
    for command in (["status"], ["submit", "page", "--urls-file", "urls.txt"]):
        assert "s3cr3t" not in refused(*command, "--queue", url).lower()
    assert main(["config", "--queue", url]) == 0
    assert "s3cr3t" not in "".join(capsys.readouterr()).lower()
    assert [path.name for path in here.iterdir()] == ["urls.txt"]


@pytest.mark.parametrize(
    "url",
    [
        "git+https://S3cr3t/x@h/q.git",
        "postgresql://u:12/S3cr3t@h/db",
        "postgresql://u:\u2100S3cr3t@h/db",
        "postgres//u:S3cr3t@h/db",
    ],
)
async def test_nor_does_the_doctor_take_a_part_of_a_password_for_a_host(
    here: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    async def unresolved(host: str) -> str:
        return f"The name {host} cannot be resolved."

    monkeypatch.setattr("longshore.fleet.checks.network._unresolved", unresolved)
    findings = {finding.name: finding for finding in await run_checks(CheckPlan(given={"queue": url}))}
    assert findings["queue"].verdict is CheckVerdict.FAIL
    assert "check itself failed" not in str(findings)
    assert "s3cr3t" not in str(findings).lower()


def test_two_settings_that_name_the_queue_differently(
    here: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REPO_URL", "https://github.com/a/b")
    (here / ".env").write_text("QUEUE_DIR=/srv/queue\n")
    error = refused("status")
    assert "GITHUB_REPO_URL" in error
    assert "QUEUE_DIR" in error
    (here / "urls.txt").write_text("https://a.org/\n")
    assert main(["submit", "page", "--urls-file", "urls.txt", "--queue", "sqlite:///q.db"]) == 0


def test_a_setting_that_cannot_be_used(here: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHORE_LEASE_SECONDS", "abc")
    error = refused("config")
    assert "LONGSHORE_LEASE_SECONDS (environment), cannot be 'abc': it takes a number of at least 1" in error


def test_a_variable_of_another_program_does_not_disable_the_command(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUG", "app:*")
    assert main(["status"]) == 0
    assert capsys.readouterr().err == ""


def test_a_mistyped_setting_gets_one_warning_and_the_command_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHORE_LEESE", "3")
    assert main(["config", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["lease_seconds"]["value"] == 300
    assert err == "longshore: unknown setting LONGSHORE_LEESE; did you mean LONGSHORE_LEASE_SECONDS?\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fly"], "No such command 'fly'"),
        (["run"], "Missing argument"),
        (["jobs", "--state", "asleep"], "There is no state 'asleep'. The states are: pending"),
        (["jobs", "--limit", "-1"], "--limit cannot be -1"),
        (["jobs", "--wings"], "longshore jobs --help"),
        (["run", "x.py", "--worker", "3"], "longshore run --help"),
        (["retry", "--state", "failed", "--older-than", "soon"], "--older-than cannot be 'soon'"),
        (["retry"], "Say which jobs to retry"),
        (["cancel"], "Say which jobs to cancel"),
        (["retry", "--state", "completed"], "cannot be changed by retry"),
        (["cancel", "--state", "failed"], "cannot be changed by cancel"),
        (["work", "x.py", "--concurrency", "0"], "--concurrency cannot be '0': it takes a whole number of at least 1"),
        (["work", "x.py", "--concurrency", "many"], "--concurrency cannot be 'many': it takes a whole number"),
        (["work", "x.py", "--concurrency", "9" * 20], "it takes a whole number of at least 1 and at most 10,000."),
        (["work", "x.py", "--lease-seconds", "1e300"], "--lease-seconds cannot be '1e300': it takes a number of"),
        (["work", "x.py", "--poll-interval", "1e300"], "--poll-interval cannot be '1e300': it takes a number of"),
        (["work", "x.py", "--max-idle-hours", "1e300"], "--max-idle-hours cannot be '1e300': it takes a number of"),
        (["work", "x.py", "--min-delay-seconds", "1e300"], "--min-delay-seconds cannot be '1e300': it takes a number"),
        (["work", "x.py", "--batch-size", "100001"], "--batch-size cannot be '100001': it takes a whole number of"),
        (["run", "x.py", "--workers", "1001"], "--workers cannot be '1001': it takes a whole number of at least 1 and"),
        (["fleet", "x.py", "--autoscale", "1:1001"], "--autoscale cannot be '1:1001': a machine has 1,000 workers"),
        (["prune", "--older-than", "999999999999d"], "--older-than cannot be '999999999999d': it takes 3650d"),
        (["prune", "--older-than", "9" * 400 + "s"], "it takes 3650d (ten years) at most."),
        (["archive", "--older-than", "3651d"], "--older-than cannot be '3651d': it takes 3650d (ten years) at most."),
        (["copy", "a.db", "b.db", "--claim", "1", "--hold", "999999999999d"], "--hold cannot be '999999999999d': it"),
        (["copy", "a.db", "b.db", "--claim", "1", "--hold", "soon"], "--hold cannot be 'soon': it takes a number and"),
        (["submit", "page", "--urls-file", "urls.txt", "--priority", "2147483648"], "--priority cannot be 2147483648"),
        (["status", "nowhen"], "There is no run 'nowhen'"),
        (["jobs", "--run", "nowhen"], "There is no run 'nowhen'"),
        (["retry", "--run", "nowhen", "--yes"], "There is no run 'nowhen'"),
        (["show", "12345"], "There is no job '12345'"),
        (["show", "not-a-number"], "There is no job 'not-a-number'"),
        (["cancel", "12345", "--yes"], "There is no job 12345"),
        (["submit", "page", "--urls-file", "urls.txt", "--run", "a/b"], "cannot be a run id"),
        (["submit", " ", "--urls-file", "urls.txt"], "The kind is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_as_asked_is_said(here: Path, refused: Refused, arguments: list[str], said: str) -> None:
    (here / "urls.txt").write_text("https://a.org/\n")
    assert said in refused(*arguments)


def test_a_place_for_the_results_that_is_not_there_is_refused_before_the_work(here: Path, refused: Refused) -> None:
    (here / "urls.txt").write_text("https://a.org/\n")
    error = refused("run", "x.py", "--urls-file", "urls.txt", "--out", "none/results.jsonl")
    assert "there is no folder none" in error


def test_debug_adds_where_an_error_came_from(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "nowhen", "--debug"]) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "longshore: There is no run 'nowhen'" in error


def test_a_fault_of_our_own_ends_in_one_line_too(here: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("nobody expected this")

    monkeypatch.setattr("longshore.ui.tables.write_table", broken)
    error = refused("config", code=1)
    assert "ZeroDivisionError: nobody expected this" in error
    assert "--debug" in error
