"""What the logs of this machine say about a job."""

from __future__ import annotations

from pathlib import Path

from longshore.errors import Failure
from longshore.job import Attempt, Job, State
from longshore.top.find_jobs import Detail
from longshore.top.log_lines import LINES, log_parts

TEXT = """06:38:42 Looking for work worker_id=w-1
06:38:42 Visiting job_id=3 kind=page worker_id=w-1
06:38:42 Visiting job_id=33 kind=page worker_id=w-1
06:38:43 ERROR Failed work job_id=3 kind=page error="no title" worker_id=w-1
Traceback (most recent call last):
  File "pages.py", line 7, in page
ValueError: no title
06:38:44 STOPPING worker_id=w-1
"""


def detail(worker: str | None = "w-1", *earlier: str, run: str = "r") -> Detail:
    job = Job(id="3", run=run, kind="page", key="k", payload={}, state=State.FAILED, worker=worker)
    history = tuple(Attempt(epoch=1, worker=by, ended_at=0.0, failure=Failure("crash", "gone")) for by in earlier)
    return Detail(job=job, history=history)


def log(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_jobs_lines_are_found_with_the_traceback_that_follows_and_no_others(tmp_path: Path) -> None:
    log(tmp_path, "logs/worker_1.log", TEXT)
    [part] = log_parts(tmp_path, detail())
    assert part.file == str(Path("logs", "worker_1.log"))
    assert [line.split(" ")[0] for line in part.lines] == ["06:38:42", "06:38:43", "Traceback", "", "ValueError:"]
    assert not any("job_id=33" in line for line in part.lines)


def test_lines_of_json_are_found_too(tmp_path: Path) -> None:
    lines = [f'{{"message":"Visiting","worker_id":"w-1","job_id":"{n}","kind":"page"}}' for n in (3, 33)]
    log(tmp_path, "logs/worker_1.log", "\n".join(lines) + "\n")
    [part] = log_parts(tmp_path, detail())
    assert part.lines == (lines[0],)


def test_a_job_of_the_same_number_in_another_queue_is_another_job(tmp_path: Path) -> None:
    log(tmp_path, "logs/worker_1.log", TEXT)
    log(tmp_path, "logs/worker_2.log", TEXT.replace("kind=page", "kind=list"))
    assert log_parts(tmp_path, detail("w-9")) == ()
    assert [part.file for part in log_parts(tmp_path, detail("w-1"))] == [str(Path("logs", "worker_1.log"))]


def test_the_log_of_an_earlier_attempt_is_found(tmp_path: Path) -> None:
    log(tmp_path, "logs/worker_1.log", TEXT)
    assert len(log_parts(tmp_path, detail("w-2", "w-1"))) == 1


def test_the_logs_of_a_run_of_one_command_are_found(tmp_path: Path) -> None:
    log(tmp_path, ".longshore/logs/r/worker_1.log", TEXT)
    log(tmp_path, ".longshore/logs/other/worker_1.log", TEXT)
    [part] = log_parts(tmp_path, detail(None))
    assert part.file == str(Path(".longshore", "logs", "r", "worker_1.log"))


def test_only_the_last_lines_of_a_long_log_are_shown(tmp_path: Path) -> None:
    log(
        tmp_path,
        "logs/worker_1.log",
        "".join(f"06:00:00 line {n} job_id=3 kind=page worker_id=w-1\n" for n in range(999)),
    )
    [part] = log_parts(tmp_path, detail())
    assert len(part.lines) == LINES
    assert "line 998" in part.lines[-1]


def test_where_there_are_no_logs_there_are_no_lines(tmp_path: Path) -> None:
    assert log_parts(tmp_path, detail(run="../escaping")) == ()
