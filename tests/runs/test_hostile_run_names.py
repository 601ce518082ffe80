"""Programs choose the names of runs, and no name leads out of the folders that are named after runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.errors import Failure
from longshore.job import Job, State
from longshore.runs.records.prune_traces import RemovedTraces, remove_traces
from longshore.top.find_jobs import Detail
from longshore.top.log_lines import log_parts

LINE = "06:38:42 Visiting job_id=3 kind=page worker_id=w-1\n"


@pytest.mark.parametrize("run", ["..", ".", "", "../..", "r/..", "r" * 300, "a\0b", "-rf", "/etc"])
def test_pruning_a_run_deletes_nothing_besides_its_logs(tmp_path: Path, run: str) -> None:
    home = tmp_path / ".longshore"
    logs = home / "logs"
    (logs / "r").mkdir(parents=True)
    (logs / "r" / "worker.log").write_text("mine")
    (home / "queue.db").write_text("the queue")
    assert remove_traces(home / "data", logs, [], [run]) == RemovedTraces()
    assert (home / "queue.db").read_text() == "the queue"
    assert (logs / "r" / "worker.log").read_text() == "mine"


def test_pruning_a_run_removes_its_logs(tmp_path: Path) -> None:
    (tmp_path / "logs" / "r").mkdir(parents=True)
    (tmp_path / "logs" / "r" / "worker.log").write_text("mine")
    assert remove_traces(tmp_path, tmp_path / "logs", [], ["r", "other"]) == RemovedTraces(logs=1, size=4)
    assert not (tmp_path / "logs" / "r").exists()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_pruning_a_run_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("kept")
    (tmp_path / "logs" / "inside").mkdir(parents=True)
    (tmp_path / "logs" / "r").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "logs" / "inside" / "link").symlink_to(tmp_path / "elsewhere")
    assert remove_traces(tmp_path, tmp_path / "logs", [], ["r", "inside"]).logs == 1
    assert (tmp_path / "elsewhere" / "file").read_text() == "kept"


@pytest.mark.parametrize("run", ["..", "r" * 300, "a\0b"])
def test_the_logs_of_a_job_are_looked_for_in_the_folders_of_logs_only(tmp_path: Path, run: str) -> None:
    (tmp_path / ".longshore" / "logs").mkdir(parents=True)
    (tmp_path / ".longshore" / "worker_1.log").write_text(LINE)
    job = Job(id="3", run=run, kind="page", key="k", payload={}, state=State.FAILED, failure=Failure("crash", "gone"))
    assert log_parts(tmp_path, Detail(job=job, history=())) == ()
