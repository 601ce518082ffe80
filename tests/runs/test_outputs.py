"""Results, failures, rate and checkpoints: what a run leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longshore.errors import Failure, UsageError
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Outcome, Settlement
from longshore.queue import Selection
from longshore.runs.export import results
from longshore.runs.export.output_file import check_out
from longshore.runs.export.results import Delivered, deliver, write_results
from longshore.runs.scrapers.resume import CommandCheckpoint
from longshore.runs.watch.current_rate import WINDOW, CurrentRate
from longshore.runs.watch.failures import EXAMPLES, failure_groups, subject


async def finished(*outcomes: Outcome) -> MemoryQueue:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run="r") for n in range(len(outcomes))])
    leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=len(outcomes)))
    await queue.settle([Settlement(lease, outcome) for lease, outcome in zip(leases, outcomes, strict=True)])
    return queue


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def failed(error_type: str, exception: str) -> Failed:
    return Failed(Failure(error_type=error_type, message="no", exception=exception, retryable=False))


async def test_results_are_one_line_for_each_completed_job(tmp_path: Path) -> None:
    queue = await finished(Completed({"n": 1}), failed("timeout", "TimedOutError"), Completed(None))
    out = tmp_path / "results.jsonl"
    assert await write_results(queue, "r", str(out)) == 2
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["payload"]["url"] for line in lines] == ["https://a.org/0", "https://a.org/2"]
    assert [line["result"] for line in lines] == [{"n": 1}, None]
    assert lines[0].keys() == {"run", "kind", "key", "payload", "result"}


async def test_results_nobody_named_a_place_for_leave_those_of_another_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = await finished(Completed(1))
    assert await deliver(queue, "r", None) == Delivered("results.jsonl", 1, replaced=False, evaded=False)
    # The same run again may write the same file; another may not.
    assert await deliver(queue, "r", None) == Delivered("results.jsonl", 1, replaced=True, evaded=False)
    before = (tmp_path / "results.jsonl").read_text()
    await queue.submit([new_job("page", {"n": 1}, run="s")])
    [lease] = await queue.claim(Want(worker=WorkerId.new("w"), run="s"))
    await queue.settle([Settlement(lease, Completed(2))])
    assert await deliver(queue, "s", None) == Delivered("results-s.jsonl", 1, replaced=False, evaded=True)
    (tmp_path / "results-s.jsonl").write_text("my notes\n")
    assert await deliver(queue, "s", None) == Delivered("results-s-2.jsonl", 1, replaced=False, evaded=True)
    assert (tmp_path / "results.jsonl").read_text() == before
    assert (tmp_path / "results-s.jsonl").read_text() == "my notes\n"
    # Where somebody did name one, that is what was asked for.
    assert await deliver(queue, "s", "results.jsonl") == Delivered("results.jsonl", 1, replaced=True, evaded=False)


async def test_an_empty_results_file_holds_nothing_that_could_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.jsonl").touch()
    assert (await deliver(await finished(Completed(1)), "r", None)).place == "results.jsonl"


async def test_of_two_runs_that_end_at_once_neither_loses_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = await finished(Completed(1))
    await queue.submit([new_job("page", {"n": 1}, run="s")])
    [lease] = await queue.claim(Want(worker=WorkerId.new("w"), run="s"))
    await queue.settle([Settlement(lease, Completed(2))])
    both, write = asyncio.Barrier(2), results._write

    async def at_once(*what: Any) -> tuple[int, int]:
        await both.wait()
        return await write(*what)

    monkeypatch.setattr(results, "_write", at_once)
    first, second = await asyncio.gather(deliver(queue, "r", None), deliver(queue, "s", None))
    assert sorted((first.place, second.place))[1] == "results.jsonl"
    for run, delivered in (("r", first), ("s", second)):
        assert [json.loads(line)["run"] for line in (tmp_path / delivered.place).read_text().splitlines()] == [run]
    assert len(files_in(tmp_path)) == 2


async def test_on_a_volume_without_links_results_are_not_written_over_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def no_links(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    assert (await deliver(await finished(Completed(1)), "r", None)).place == "results.jsonl"
    (tmp_path / "results.jsonl").write_text("my notes\n")
    assert (await deliver(await finished(Completed(1)), "r", None)).place == "results-r.jsonl"
    assert len(files_in(tmp_path)) == 2


async def write_again(out: Path) -> None:
    await write_results(await finished(Completed(1)), "r", str(out))


WRITES = """
import sys
from pathlib import Path
from longshore.runs.export.output_file import atomic_output

with atomic_output(Path(sys.argv[1])) as part:
    part.write_text("half")
    Path(f"{part}-journal").write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_what_a_killed_writer_left_is_removed_and_what_a_live_one_writes_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out [1].jsonl"
    other = tmp_path / "out [1].jsonl.my.part"
    other.write_text("mine")
    command = [sys.executable, "-c", WRITES, str(out)]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"writing\n"
        assert len(files_in(tmp_path)) == 5
        writers[0].kill()
        writers[0].communicate()
        asyncio.run(write_again(out))
        left = set(files_in(tmp_path)) - {out, other}
        assert len(left) == 2
        assert all(f"-{writers[1].pid}-" in path.name for path in left)
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


@pytest.mark.parametrize(
    ("payload", "key", "shown"),
    [
        ({"url": "https://a.org/"}, None, "https://a.org/"),
        ({"title": "On ships", "pages": 12}, None, 'title="On ships" pages=12'),
        ({"title": "On\nships"}, "isbn-1", 'isbn-1 title="On ships"'),
        ({"text": "x" * 100, "n": [1, 2]}, None, f'text="{"x" * 23}…" n=[1,2]'),
        ({}, None, "{}"),
    ],
)
async def test_a_job_is_shown_by_what_a_person_knows_it_by(
    payload: dict[str, Any], key: str | None, shown: str
) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("doc", payload, run="r", key=key)])
    [job] = await queue.jobs(Selection())
    assert subject(job) == shown


async def test_a_payload_of_many_fields_is_cut() -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("doc", {f"field{n}": n for n in range(1000)}, run="r")])
    [job] = await queue.jobs(Selection())
    assert len(subject(job)) == 60


async def test_a_results_file_that_cannot_be_finished_leaves_the_old_one_and_no_half_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "results.jsonl"
    out.write_text("old\n")

    async def no_room(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("longshore.runs.export.results._write", no_room)
    with pytest.raises(UsageError, match=r"No space left on device.*safe in the queue"):
        await write_results(MemoryQueue(), "r", str(out))
    assert out.read_text() == "old\n"
    assert files_in(tmp_path) == [out]


def test_a_place_results_cannot_go_to_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_out(str(tmp_path))
    with pytest.raises(UsageError, match="there is no folder"):
        check_out(str(tmp_path / "none" / "results.jsonl"))
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(UsageError, match="is not a regular file"):
        check_out(str(tmp_path / "pipe.jsonl"))
    with pytest.raises(UsageError, match="is not a regular file"):
        check_out("/dev/null")
    (tmp_path / "astray.jsonl").symlink_to(tmp_path / "none" / "results.jsonl")
    with pytest.raises(UsageError, match="there is no folder"):
        check_out(str(tmp_path / "astray.jsonl"))
    check_out("-")
    check_out(str(tmp_path / "results.jsonl"))


async def test_results_behind_a_link_are_written_where_it_leads(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old\n")
    link.symlink_to(real)
    await write_results(await finished(Completed("new")), "r", str(link))
    assert link.is_symlink()
    assert real.read_text() == link.read_text() != "old\n"


async def test_failures_are_grouped_with_the_most_frequent_first_and_a_few_examples() -> None:
    outcomes = [failed("timeout", "longshore.errors.TimedOutError")] * 5 + [failed("unknown", "KeyError")] * 2
    groups = await failure_groups(await finished(*outcomes), "r")
    assert [(g.error_type, g.exception, g.count) for g in groups] == [
        ("timeout", "TimedOutError", 5),
        ("unknown", "KeyError", 2),
    ]
    assert len(groups[0].examples) == EXAMPLES


async def test_a_flood_of_different_failures_does_not_become_a_flood_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.runs.watch.failures.KEPT_GROUPS", 2)
    groups = await failure_groups(await finished(*(failed("unknown", f"Error{n}") for n in range(10))), "r")
    assert sum(group.count for group in groups) == 10
    assert len(groups) == 3


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    pace = CurrentRate()
    assert pace.seconds_left(100) is None
    pace.note(0.0, 0)
    pace.note(10.0, 1000)
    assert pace.per_second == 100
    for second in range(11, 11 + int(WINDOW) + 1):
        pace.note(float(second), 1000 + (second - 10))
    assert pace.per_second == pytest.approx(1.0)
    assert pace.seconds_left(60) == pytest.approx(60)


def test_a_checkpoint_is_found_by_the_same_command_only(tmp_path: Path) -> None:
    checkpoint = CommandCheckpoint(tmp_path / "runs", "sqlite:///a.db", "/h.py", "/urls.txt", "page")
    assert checkpoint.load() is None
    checkpoint.save("20300101_000000")
    assert checkpoint.load() == "20300101_000000"
    assert CommandCheckpoint(tmp_path / "runs", "sqlite:///b.db", "/h.py", "/urls.txt", "page").load() is None
    checkpoint.remove("another")
    assert checkpoint.load() == "20300101_000000"
    checkpoint.remove("20300101_000000")
    checkpoint.remove("20300101_000000")
    assert checkpoint.load() is None


def test_a_checkpoint_holds_no_password_and_a_broken_one_is_named(tmp_path: Path) -> None:
    checkpoint = CommandCheckpoint(tmp_path, "postgresql://me:hunter2@db/x", "/h.py", "/urls.txt", "page")
    checkpoint.save("r")
    assert "hunter2" not in checkpoint.path.read_text()
    checkpoint.path.write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        checkpoint.load()
    checkpoint.remove("r")
    assert checkpoint.path.read_text() == "{"
