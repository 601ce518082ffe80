"""Log lines: format, context, and no secrets (A12, E9)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from longshore.job import Job
from longshore.observe import configure, log_context
from longshore.observe.logs import bind_worker, configure_relay, enter_job, relay


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def fresh_context() -> Iterator[None]:
    structlog.contextvars.clear_contextvars()
    token = enter_job(None)
    yield
    token.var.reset(token)
    structlog.contextvars.clear_contextvars()


def job() -> Job:
    return Job(id="7", run="", kind="page", key="k", payload={})


def fail(text: str) -> None:
    raise ValueError(text)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_time_level_message_context_and_place() -> None:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    bind_worker("w1")
    enter_job(job())
    structlog.get_logger().info("parsed", rows=12)
    (entry,) = lines(stream)
    assert entry.pop("timestamp").endswith("Z")
    assert isinstance(entry.pop("line"), int)
    assert entry == {
        "level": "info",
        "message": "parsed",
        "worker_id": "w1",
        "job_id": "7",
        "kind": "page",
        "module": __name__,
        "function": "test_json_has_time_level_message_context_and_place",
        "rows": 12,
    }


def test_a_terminal_gets_emoji_and_colour_and_a_pipe_asked_for_text_gets_neither() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        configure(format="text", stream=stream)
        structlog.get_logger().info("Completed work", job_id="7")
    assert "✅" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()
    assert pipe.getvalue().endswith(" Completed work job_id=7\n")
    assert pipe.getvalue().isascii()
    configure(stream=terminal)
    structlog.get_logger().info("Looking for work")
    assert "🔎 Looking for work" in terminal.getvalue()


def test_a_line_may_bring_its_own_emoji_which_only_a_terminal_shows() -> None:
    terminal, text, piped = Terminal(), io.StringIO(), io.StringIO()
    for stream, form in ((terminal, "text"), (text, "text"), (piped, "json")):
        configure(format=form, stream=stream)  # type: ignore[arg-type]
        structlog.get_logger().info("Parsing the page", pictogram="⚽", rows=3)
        structlog.get_logger().info("A long one", pictogram="\x1b[2J" + "⚽" * 100)
    assert "⚽ Parsing the page" in terminal.getvalue()
    assert "pictogram" not in terminal.getvalue() + text.getvalue() + piped.getvalue()
    assert "⚽" not in text.getvalue() + piped.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()
    assert "⚽" * 9 not in terminal.getvalue()


def test_a_workers_own_terminal_names_it_once_and_a_pipe_on_every_line() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        configure(format="text", stream=stream)
        for worker in ("w1", "w2"):
            with log_context(worker_id=worker):
                structlog.get_logger().info(f"Worker {worker} initialized")
                structlog.get_logger().info("Looking for work")
    assert ["worker_id=" in line for line in terminal.getvalue().splitlines()] == [False, False, True, True]
    assert ["worker_id=" in line for line in pipe.getvalue().splitlines()] == [True] * 4


def test_the_first_line_on_a_terminal_names_the_worker_whatever_it_says() -> None:
    terminal = Terminal()
    configure(stream=terminal)
    bind_worker("w1")
    for _ in range(2):
        structlog.get_logger().warning("Queue unavailable")
    assert ["worker_id=w1" in line for line in terminal.getvalue().splitlines()] == [True, False]


def test_the_traceback_of_work_that_is_tried_again_is_left_to_json() -> None:
    text, piped = io.StringIO(), io.StringIO()
    configure(format="text", stream=text)
    for stream in (text, piped):
        if stream is piped:
            configure(format="json", stream=stream)
        structlog.get_logger().warning("Failed work", exception="Traceback: again")
        structlog.get_logger().error("Failed work", exception="Traceback: for good")
    assert ("again" in text.getvalue(), "for good" in text.getvalue()) == (False, True)
    assert [entry["exception"] for entry in lines(piped)] == ["Traceback: again", "Traceback: for good"]


def test_what_libraries_say_through_logging_joins_with_the_same_context() -> None:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    bind_worker("w1")
    enter_job(job())
    logging.getLogger("some.library").warning("careful with %s", "that")
    logging.getLogger("some.library").debug("too much detail")
    (entry,) = lines(stream)
    assert (entry["message"], entry["level"], entry["module"]) == ("careful with that", "warning", "some.library")
    assert (entry["worker_id"], entry["job_id"]) == ("w1", "7")


def test_exceptions_are_kept_whole_whoever_logs_them() -> None:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    try:
        fail("no such luck")
    except ValueError:
        structlog.get_logger().exception("it broke")
        logging.getLogger("library").exception("it broke there")
    for entry in lines(stream):
        assert entry["level"] == "error"
        assert entry["exception"].startswith("Traceback")
        assert entry["exception"].endswith("ValueError: no such luck")


@pytest.mark.ledger("E9")
def test_log_context_holds_inside_its_block_only() -> None:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    log = structlog.get_logger()
    with log_context(batch=3):
        log.info("inside")
        with log_context(batch=4, part="a"):
            log.info("deeper")
        log.info("inside again")
    log.info("outside")
    assert [(e.get("batch"), e.get("part")) for e in lines(stream)] == [(3, None), (4, "a"), (3, None), (None, None)]


def test_levels_below_the_one_asked_for_are_not_said() -> None:
    stream = io.StringIO()
    configure(format="json", stream=stream, level="warning")
    structlog.get_logger().info("no")
    structlog.get_logger().warning("yes")
    relay({"level": "info", "message": "not from a child either", "timestamp": "2026-01-01T00:00:00Z"}, None)
    assert [entry["message"] for entry in lines(stream)] == ["yes"]


def test_values_json_does_not_know_are_shown_as_text() -> None:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    structlog.get_logger().info("odd", thing=object)
    assert lines(stream)[0]["thing"] == "<class 'object'>"


def test_no_secret_reaches_a_line_in_any_format() -> None:
    json_stream, text_stream = io.StringIO(), io.StringIO()
    for stream, format_ in ((json_stream, "json"), (text_stream, "text")):
        configure(format=format_, stream=stream)  # type: ignore[arg-type]
        log = structlog.get_logger()
        log.info("open postgresql://me:hunter2@host/db", password="hunter2", headers={"Authorization": "hunter2"})
        log.info("sent Authorization: Bearer hunter2 and api_key=hunter2&x=1")
        logging.getLogger("library").error("failed for token='hunter2'")
        try:
            fail("secret=hunter2")
        except ValueError:
            log.exception("broke")
    for stream in (json_stream, text_stream):
        assert "hunter2" not in stream.getvalue()
        assert "***" in stream.getvalue()


def test_a_childs_entries_are_said_by_its_parent_with_the_job() -> None:
    sent: list[dict[str, Any]] = []
    configure_relay(sent.append, level="info")
    structlog.get_logger().warning("from the child", rows=1)
    stream = io.StringIO()
    configure(format="json", stream=stream)
    bind_worker("w1")
    relay(sent[0], job())
    (entry,) = lines(stream)
    assert (entry["message"], entry["level"], entry["rows"]) == ("from the child", "warning", 1)
    assert (entry["worker_id"], entry["job_id"]) == ("w1", "7")
    assert entry["function"] == "test_a_childs_entries_are_said_by_its_parent_with_the_job"


def test_a_reader_that_went_away_does_not_break_the_work() -> None:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    stream.close()
    structlog.get_logger().info("to nobody")
