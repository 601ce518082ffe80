"""Over HTTP, handlers have parameters, errors, partial results and logs as on any queue (E3–E5, E7, E9, E12, E15)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.task_server import TaskServer, clean_environment

HANDLERS = """
from pydantic import BaseModel, Field

from longshore import ConnectionFailedError, CrashedError, ProcessingError, TimedOutError, ValidationError
from longshore import Partial, Result, Worker, handler, new_job


class Search(BaseModel):
    search_query: str = Field(max_length=200)
    max_results: int = Field(10, ge=1, le=50)


class Searches(Worker):
    kinds = ("search",)
    params = Search
    retries = 1
    backoff = 0

    def process_task(self, task):
        return {"query": task.params.search_query, "limit": task["params"].max_results}


@handler("partial")
async def partial(ids: list[int], kit):
    good = [each for each in ids if each > 0]
    return Partial([{"id": each} for each in good], [ProcessingError(f"no video {each}") for each in ids if each <= 0])


ERRORS = {"validation": ValidationError, "connection": ConnectionFailedError, "processing": ProcessingError,
          "timeout": TimedOutError, "crash": CrashedError, "unknown": KeyError}


@handler("raises", retries=1, backoff=0)
def raises(error: str, kit):
    raise ERRORS[error]("it went wrong")


@handler("follows")
async def follows(n: int, kit):
    kit.log.info("counting down", n=n)
    return Result(n, jobs=[new_job("follows", {"n": n - 1})] if n else [], message="counted")
"""


def work(server: TaskServer, folder: Path) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    (folder / "handlers.py").write_text(HANDLERS)
    # The flag counts, and not the variable.
    variables = {"LONGSHORE_API_KEY": server.key, "TASKMANAGER_API_URL": "http://127.0.0.1:9/api", "WORKER_ID": "other"}
    flags = ["--api-url", server.url, "--worker-id", "by-flag", "--poll-interval", "0.2", "--log-format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "longshore", "work", "handlers.py", "--until-done", *flags],
        cwd=folder,
        env=clean_environment() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done, [json.loads(line) for line in done.stderr.splitlines()]


@pytest.fixture(scope="module")
def worked(server: TaskServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All tasks, done by one worker; the log and the output are among them."""
    errors = ("validation", "connection", "processing", "timeout", "crash", "unknown")
    ids = {
        "search": server.create("search", search_query="cats"),
        "faulty": server.create("search", search_query="x" * 201, max_results=51),
        "some": server.create("partial", ids=[1, 0, 2]),
        "none": server.create("partial", ids=[0, -1]),
        "follows": server.create("follows", n=2),
        **{error: server.create("raises", error=error) for error in errors},
    }
    done, log = work(server, tmp_path_factory.mktemp("worker"))
    return {name: server.task(task) for name, task in ids.items()} | {"log": log, "done": done}


@pytest.mark.ledger("E4")
def test_parameters_are_checked_and_all_faults_are_named_at_once(worked: dict[str, Any]) -> None:
    assert worked["search"]["result"] == {"query": "cats", "limit": 10}
    faulty = worked["faulty"]
    assert (faulty["status"], faulty["attempts"], faulty["error"]["error_type"]) == ("failed", 1, "validation")
    assert "search_query" in faulty["error"]["message"]
    assert "max_results" in faulty["error"]["message"]


@pytest.mark.usefixtures("worked")
def test_a_task_with_wrong_parameters_is_refused_once_a_worker_has_published_what_it_takes(server: TaskServer) -> None:
    body = {"type": "search", "params": {"search_query": "x" * 201, "max_results": 51}}
    status, problem = server.call("POST", "/tasks", body)
    assert status == 422
    assert "search_query" in str(problem["errors"])
    assert "max_results" in str(problem["errors"])


@pytest.mark.ledger("E15")
def test_results_and_errors_of_the_parts_are_side_by_side(worked: dict[str, Any]) -> None:
    some = worked["some"]
    assert some["status"] == "completed"
    assert some["result"]["results"] == [{"id": 1}, {"id": 2}]
    assert [each["error"] for each in some["result"]["errors"]] == ["no video 0"]
    assert worked["none"]["status"] == "failed"


@pytest.mark.ledger("E7")
@pytest.mark.parametrize(
    ("error", "attempts"),
    [("validation", 1), ("connection", 2), ("processing", 2), ("timeout", 2), ("crash", 2), ("unknown", 2)],
)
def test_an_error_is_retried_if_that_may_help(worked: dict[str, Any], error: str, attempts: int) -> None:
    task = worked[error]
    assert (task["status"], task["attempts"], task["error"]["error_type"]) == ("failed", attempts, error)
    assert ("KeyError" in task["error"].get("traceback", "")) == (error == "unknown")


def test_follow_on_jobs_are_done_in_the_same_run(worked: dict[str, Any], server: TaskServer) -> None:
    assert worked["follows"]["result"] == {"success": True, "data": 2, "message": "counted"}
    jobs = server.call("GET", "/v1/jobs?kind=follows&run=tasks")[1]["jobs"]
    assert [(job["payload"]["n"], job["depth"], job["state"]) for job in jobs] == [
        (2, 0, "completed"),
        (1, 1, "completed"),
        (0, 2, "completed"),
    ]


@pytest.mark.ledger("E9")
def test_the_log_is_json_and_names_worker_and_job(worked: dict[str, Any]) -> None:
    keys = {"timestamp", "level", "message", "worker_id", "module", "function", "line"}
    assert all(keys <= set(line) for line in worked["log"]), worked["log"]
    said = [line for line in worked["log"] if line["message"] == "counting down"]
    assert worked["follows"]["id"] in {line["job_id"] for line in said}
    assert {line["worker_id"] for line in worked["log"]} == {"by-flag"}


@pytest.mark.ledger("E12")
def test_the_key_is_in_no_log(worked: dict[str, Any], server: TaskServer) -> None:
    assert server.key not in worked["done"].stderr + worked["done"].stdout
