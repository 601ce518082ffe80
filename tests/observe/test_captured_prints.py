"""What an attempt prints is said in the log, with its job; everything else is printed as ever (E9)."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from longshore.job import Job
from longshore.observe import configure, logs
from longshore.observe.captured_prints import finish_prints, prints_to_log
from longshore.observe.logs import enter_job


@pytest.fixture
def said() -> io.StringIO:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    return stream


@pytest.fixture(autouse=True)
def outside_an_attempt() -> Iterator[None]:
    token = enter_job(None)
    yield
    token.var.reset(token)


def job(number: int) -> Job:
    return Job(id=str(number), run="", kind="page", key="k", payload={})


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_attempts_side_by_side_keep_their_lines_apart(
    said: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = asyncio.Barrier(2)

    async def attempt(number: int) -> None:
        enter_job(job(number))
        print("first half", end=" ")
        await turn.wait()
        print("of", number)
        await asyncio.to_thread(print, "from a thread of", number, file=sys.stderr)
        print("left open", end="")
        finish_prints(job(number))

    with prints_to_log():
        async with asyncio.TaskGroup() as tasks:
            for number in (1, 2):
                tasks.create_task(attempt(number))
    for label in ("1", "2"):
        mine = [entry["message"] for entry in entries(said) if entry["job_id"] == label]
        assert mine == [f"first half of {label}", f"from a thread of {label}", "left open"]
    assert {(entry["kind"], entry["source"], entry["level"]) for entry in entries(said)} == {("page", "print", "info")}
    assert capsys.readouterr() == ("", "")


def test_outside_an_attempt_and_after_the_block_printing_is_as_ever(
    said: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout
    with prints_to_log():
        with prints_to_log():
            print("inside")
        assert sys.stdout is not before
    assert sys.stdout is before
    enter_job(job(1))
    print("after")
    assert capsys.readouterr().out == "inside\nafter\n"
    assert said.getvalue() == ""


def test_a_log_configured_meanwhile_is_not_sent_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with prints_to_log():
        configure(format="json")
        enter_job(job(1))
        print("once")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "once"


def test_without_a_log_prints_are_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_chain", logs._Chain())
    with prints_to_log():
        enter_job(job(1))
        print("plainly")
    assert capsys.readouterr().out == "plainly\n"
