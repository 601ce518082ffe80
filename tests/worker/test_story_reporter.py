"""The log of a worker for a person: slow work is told, fast work has one line, failures are always named (A12, A14)."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.job import Job
from longshore.lease import Lease, WorkerId
from longshore.observe import configure
from longshore.observe.live_line import LiveLine
from longshore.outcome import Completed, Failed, Settlement
from longshore.worker import MaxWork, WorkerConfig
from longshore.worker.status.log_reporter import LogReporter
from longshore.worker.status.story_reporter import QuietReporter, StoryReporter


class Terminal(io.StringIO):
    """What a person has on the screen: the lines that stay, and the last one."""

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        lines = self.getvalue().split("\n")
        return [line.rpartition("\x1b[2K")[2] for line in lines]

    @property
    def live(self) -> str:
        return self.screen[-1]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def config(tmp_path: Path, *stop: MaxWork) -> WorkerConfig:
    return WorkerConfig(queue_url="memory://", handler_file=tmp_path / "h.py", worker=WorkerId("anna", "1"), stop=stop)


def watched(terminal: Terminal, clock: ManualClock, tmp_path: Path, *stop: MaxWork) -> StoryReporter:
    """A worker that a person watches on this terminal."""
    live = LiveLine(terminal)
    configure(format="auto", stream=terminal, live=live)
    return StoryReporter(config(tmp_path, *stop), clock, live)


def lease(key: str) -> Lease:
    return Lease(Job(id="7", run="r", kind="competition", key=key, payload={"country": "BR"}), WorkerId.new("w"), 0.0)


def done(key: str) -> Settlement:
    return Settlement(lease(key), Completed(), 1714.0)


def broken(key: str, text: str = "no table") -> Settlement:
    return Settlement(lease(key), Failed(Failure("processing", text)), 0.25)


def test_slow_work_says_of_each_job_how_far_the_run_is(
    terminal: Terminal, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    reporter = watched(terminal, clock, tmp_path)
    reporter.initialized(["competition"])
    reporter.figures.note(20, 180)
    reporter.claimed([lease("comp_BRQR")])
    for number, key in enumerate(["comp_BR1", "comp_BR2", "comp_BRQR"], 1):
        clock.advance(1714)
        reporter.completed([done(key)], number)
    story = "\n".join(terminal.screen)
    assert "Worker anna initialized: competition jobs, 8 at a time, from memory://" in story
    assert "Claimed work comp_BRQR" in story
    assert "Completed work comp_BRQR: 23 of 200, 2.1 jobs/hour, about 4 days left" in story
    assert terminal.live == ""


def test_fast_work_has_one_line_that_moves_and_only_failures_stay(
    terminal: Terminal, clock: ManualClock, tmp_path: Path
) -> None:
    reporter = watched(terminal, clock, tmp_path)
    reporter.figures.note(0, 10_000)
    for second in range(1, 11):
        reporter.claimed([lease(f"a{second}")] * 100)
        reporter.completed([done(f"a{second}")] * 100, 100 * second)
        clock.advance(1.0)
        reporter.figures.note(100 * second, 10_000 - 100 * second)
        reporter.flush()
    assert terminal.live == "📈 1,000 of 10,000, 100 jobs/s, about 90 s left".replace("90 s", "2 min")
    reporter.failed(broken("b7"), 1001, again=False)
    assert "Failed work b7: no table" in terminal.screen[-2]
    assert terminal.live.startswith("📈 1,000 of 10,000")
    reporter.flush()
    assert terminal.live.endswith(", 1 failed")
    assert "\n".join(terminal.screen).count("Completed work") == 0
    reporter.stopping("run r is finished")
    assert terminal.live == ""


def test_work_that_becomes_slow_is_told_again(terminal: Terminal, clock: ManualClock, tmp_path: Path) -> None:
    reporter = watched(terminal, clock, tmp_path)
    reporter.figures.note(0, 100)
    reporter.completed([done("a")] * 50, 50)
    reporter.flush()
    assert terminal.live
    clock.advance(10)
    reporter.flush()
    assert terminal.live == ""
    reporter.completed([done("comp_BRQR")], 51)
    assert "Completed work comp_BRQR: 51 of 100" in terminal.screen[-2]


def test_a_target_of_the_worker_counts_its_own_jobs(terminal: Terminal, clock: ManualClock, tmp_path: Path) -> None:
    reporter = watched(terminal, clock, tmp_path, MaxWork(50))
    reporter.figures.note(1000, 9000)
    clock.advance(3600)
    reporter.completed([done("comp_BRQR")], 1)
    assert "Completed work comp_BRQR: 1 of 50, 1.0 jobs/hour, about 2 days left" in terminal.screen[-2]


def test_a_run_that_grows_promises_no_end(terminal: Terminal, clock: ManualClock, tmp_path: Path) -> None:
    reporter = watched(terminal, clock, tmp_path)
    reporter.figures.note(0, 10)
    clock.advance(60)
    reporter.completed([done("comp_BRQR")], 1)
    reporter.figures.note(1, 20)
    assert reporter.figures.words == "1 of 21, 60 jobs/hour"


def test_a_story_in_a_pipe_is_plain_and_never_folds_slow_jobs(clock: ManualClock, tmp_path: Path) -> None:
    pipe = io.StringIO()
    configure(format="auto", stream=pipe)
    reporter = StoryReporter(config(tmp_path), clock)
    reporter.figures.note(0, 20)
    for number in range(10):
        clock.advance(0.2)
        reporter.completed([done(f"job{number}")], number + 1)
    assert [line.split(" ", 1)[1].split(",")[0] for line in pipe.getvalue().splitlines()] == [
        f"Completed work job{number}: {number + 1} of 20" for number in range(10)
    ]


def test_a_batch_claim_names_its_jobs(clock: ManualClock, tmp_path: Path) -> None:
    pipe = io.StringIO()
    configure(format="auto", stream=pipe)
    LogReporter(config(tmp_path), clock).claimed([lease(f"comp_{number}") for number in range(7)])
    assert 'Claimed work jobs=7 names="comp_0, comp_1, comp_2, comp_3, comp_4 and 2 more"' in pipe.getvalue()


def test_quiet_says_only_failures_and_the_end(clock: ManualClock, tmp_path: Path) -> None:
    pipe = io.StringIO()
    configure(format="auto", stream=pipe)
    reporter = QuietReporter(config(tmp_path), clock)
    reporter.initialized(["competition"])
    reporter.looking()
    reporter.claimed([lease("a")])
    reporter.completed([done("a")], 1)
    reporter.failed(broken("b"), 2, again=False)
    reporter.stopping("enough")
    assert [line.split(" ", 1)[1].split(" job_id")[0] for line in pipe.getvalue().splitlines()] == [
        "ERROR Failed work",
        "STOPPING: enough",
    ]


def test_a_line_that_does_not_fit_is_cut(terminal: Terminal) -> None:
    live = LiveLine(terminal)
    live.show("x" * 200)
    assert len(terminal.live) <= 79


def test_no_sentence_about_jobs_is_wider_than_the_terminal(
    terminal: Terminal, clock: ManualClock, tmp_path: Path
) -> None:
    def page(number: int) -> Lease:
        url = f"https://www.shop.example/catalogue/category/books/item/{number}"
        return Lease(Job(id=str(number), run="r", kind="page", key="k", payload={"url": url}), WorkerId.new("w"), 0.0)

    reporter = watched(terminal, clock, tmp_path)
    reporter.initialized(["listing", "item", "picture"])
    reporter.figures.note(20, 180)
    reporter.claimed([page(number) for number in range(8)])
    clock.advance(1.5)
    reporter.completed([Settlement(page(7), Completed(), 1.0)], 1)
    assert [line for line in terminal.screen if len(line) > 79] == []
    story = "\n".join(terminal.screen)
    assert "/item/0 and 7 more" in story
    assert "item/7: 21 of 200, 2,400 jobs/hour, 4 min left" in story
    assert "\n    listing, item, picture jobs, 8 at a time, from memory://" in story


def test_a_person_at_a_terminal_is_told_of_keys_and_not_of_signals(
    terminal: Terminal, clock: ManualClock, tmp_path: Path
) -> None:
    reporter = watched(terminal, clock, tmp_path)
    reporter.stopping("SIGINT received; finishing 2 jobs under way")
    reporter.hint("Send the signal once more to give these jobs back and leave at once")
    story = "\n".join(terminal.screen)
    assert "STOPPING: Ctrl-C; finishing 2 jobs under way" in story
    assert "Press Ctrl-C again to give these jobs back" in story
