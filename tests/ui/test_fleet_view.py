"""The live view of a fleet: fits its screen, whatever the fleet."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from rich.console import Console

from longshore.clock import ManualClock
from longshore.fleet.supervise.supervisor import Phase, Stop, SupervisedWorker, WorkerCommand, WorkerExit
from longshore.queue import Count
from longshore.runs.estimate.estimate import Binding, Estimate
from longshore.ui.fleet.board import FleetBoard, ProxySummary
from longshore.ui.fleet.view import fleet_view, picture, progress_line
from longshore.worker.status.worker_status import WorkerStatus


def board(workers: int, *, partitions: int = 5, **standing: Any) -> FleetBoard:
    """A fleet in the middle of its work, each worker with this to say."""
    clock = ManualClock()
    posts: dict[str, SupervisedWorker] = {}
    for number in range(workers):
        command = WorkerCommand(f"worker {number}", (), Path(f"logs/worker_{number}.log"), {})
        process = cast("Any", SimpleNamespace(pid=1000 + number))
        posts[command.name] = SupervisedWorker(WorkerExit(command), phase=Phase.RUNNING, process=process)
    names = tuple(f"P{number}" for number in range(partitions))
    shown = FleetBoard(clock, posts, dict.fromkeys(posts, names), "Run states", workers)
    shown.counted(Count(pending=800, completed=200))
    said: dict[str, Any] = {"job": "https://a.org/", "under_way": 1} | standing
    report = WorkerStatus(partitions=names[:10], owned=partitions, **said)
    for name in posts:
        shown.hear(name, msgspec.json.encode(report))
    return shown


def drawn(shown: FleetBoard, width: int = 100, height: int = 30) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(picture(shown, width, height))
    return cast("io.StringIO", console.file).getvalue().splitlines()


@pytest.mark.parametrize("workers", [1, 10, 60])
@pytest.mark.parametrize("size", [(100, 30), (80, 24), (100, 12)])
def test_it_fits_the_screen(workers: int, size: tuple[int, int]) -> None:
    width, height = size
    long = {"job": "https://a.org/" + "long/" * 50, "completed": 1_234_567, "failed": 123_456}
    lines = drawn(board(workers, partitions=60, **long), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) < height
    assert any("a." in line for line in lines)


def test_what_does_not_fit_is_counted() -> None:
    lines = drawn(board(60))
    shown = sum("a.org" in line for line in lines)
    assert shown >= 15
    assert f"and {60 - shown} more" in [line.strip() for line in lines]


def test_a_worker_is_shown_with_all_its_figures() -> None:
    fleet = board(1, completed=41, failed=2, under_way=8, job="https://a.org/x")
    fleet.posts["worker 0"].ending.restarts = 3
    fleet.memory[1000] = 83 * 2**20
    row = next(line for line in drawn(fleet) if "a.org/x" in line)
    assert row.split() == ["0", "P0", "P1", "P2", "P3", "P4", "a.org/x", "+7", "41", "2", "3", "83", "MB"]


def test_of_a_long_address_both_ends_are_shown() -> None:
    row = next(line for line in drawn(board(1, job=f"https://a.org/{'long/' * 50}0017")) if "a.org" in line)
    assert "a.org/long" in row
    assert "/0017 " in row


def test_names_that_do_not_fit_are_counted() -> None:
    row = next(line for line in drawn(board(1, partitions=60)) if "a.org" in line)
    assert "P0 P1 P2 P3 P4 +55 " in row


def test_what_was_done_before_a_restart_still_counts() -> None:
    fleet = board(1, completed=5)
    post = fleet.posts["worker 0"]
    post.process = cast("Any", SimpleNamespace(pid=2000))
    fleet.hear("worker 0", msgspec.json.encode(WorkerStatus(completed=2)))
    assert fleet.rows()[0].done == 7


def test_trouble_is_shown_instead_of_the_job() -> None:
    assert any("the VPN check fails" in line for line in drawn(board(1, trouble="the VPN check fails: no tun0")))


def test_a_worker_that_does_not_run_shows_why() -> None:
    fleet = board(3)
    for post, phase in zip(fleet.posts.values(), (Phase.WAITING, Phase.RESTARTING, Phase.GIVEN_UP), strict=True):
        post.phase, post.process = phase, None
    lines = "\n".join(drawn(fleet))
    assert all(word in lines for word in ("waiting", "restarting", "given up"))
    assert "a.org" not in lines


def test_the_head_says_how_far_it_is_how_fast_and_how_long() -> None:
    fleet = board(2)
    cast("ManualClock", fleet.clock).advance(10.0)
    fleet.counted(Count(pending=700, completed=290, failed=10))
    head = drawn(fleet)[0]
    for fact in ("Run states", "300/1,000", "30 %", "10/s", "1 min 10 s left"):
        assert fact in head


def test_a_line_in_a_pipe_says_it_all() -> None:
    fleet = board(2)
    cast("ManualClock", fleet.clock).advance(10.0)
    fleet.counted(Count(pending=700, completed=290, failed=10))
    assert progress_line(fleet) == "300 of 1,000 done, 10 failed, 10/s, 1 min 10 s left, 2 workers"


def test_in_a_pipe_there_is_a_line_every_ten_seconds_and_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("longshore.ui.live_view.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), soft_wrap=True)
    with fleet_view(console) as view:
        for second in range(25):
            now[0] = float(second)
            view.show(board(2))
        view.say("worker 1 was killed")
    lines = cast("io.StringIO", console.file).getvalue().splitlines()
    assert lines == ["200 of 1,000 done, 2 workers"] * 2 + ["worker 1 was killed"]


ESTIMATE = Estimate(p50=95.0, p90=140.0, binds=Binding.HOST, host="shop.example")
PAUSED = {"paused r": "paused: run r; to let it go on: longshore resume r (since 2026-05-04 14:12:30)"}


def test_the_estimate_of_the_run_stands_in_a_line_of_its_own_instead_of_the_time_at_this_pace() -> None:
    fleet = at_ten_a_second(2)
    fleet.estimate = ESTIMATE
    lines = [line.strip() for line in drawn(fleet)]
    assert "1 min 35 s to 2 min 20 s left; what binds: the rate of shop.example" in lines
    assert "left" not in lines[0]
    assert progress_line(fleet) == "300 of 1,000 done, 10/s, 1 min 35 s to 2 min 20 s left, 2 workers"


def test_a_fleet_that_stops_or_has_nothing_left_promises_no_time() -> None:
    for change in ({"asked": Stop.DRAIN}, {"count": Count(completed=1000)}):
        fleet = at_ten_a_second(2)
        fleet.estimate = ESTIMATE
        for name, value in change.items():
            setattr(fleet, name, value)
        assert "what binds" not in "\n".join(drawn(fleet))
        assert "left" not in progress_line(fleet)


def test_why_no_time_is_known_is_said() -> None:
    fleet = at_ten_a_second(2)
    fleet.estimate = Estimate(p50=None, p90=None, unknown="it is paused")
    assert "time left not known yet: it is paused" in [line.strip() for line in drawn(fleet)]
    assert " left" not in progress_line(fleet)


@pytest.mark.parametrize("size", [(100, 30), (80, 24), (100, 12)])
def test_pauses_limits_and_closures_are_said_in_a_line_each_and_it_still_fits(size: tuple[int, int]) -> None:
    width, height = size
    fleet = board(60, partitions=60)
    fleet.estimate, fleet.notices = ESTIMATE, PAUSED
    lines = drawn(fleet, width, height)
    assert sum(line.startswith("paused: run r") for line in lines) == 1
    assert max(map(len, lines)) <= width
    assert len(lines) < height


def test_in_a_pipe_a_notice_is_said_once_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.ui.live_view.time.monotonic", lambda: 0.0)
    console, fleet = Console(file=io.StringIO(), soft_wrap=True, width=200), board(2)
    with fleet_view(console) as view:
        for notices in ({}, PAUSED, PAUSED, {}, PAUSED):
            fleet.notices = notices
            view.show(fleet)
    assert cast("io.StringIO", console.file).getvalue().splitlines() == [*PAUSED.values()] * 2


def said_again(fleet: FleetBoard, *names: str, **standing: Any) -> None:
    """These workers (all, where none is named) report once more."""
    for name in names or tuple(fleet.posts):
        fleet.hear(name, msgspec.json.encode(WorkerStatus(**standing)))


def at_ten_a_second(workers: int) -> FleetBoard:
    fleet = board(workers)
    cast("ManualClock", fleet.clock).advance(10.0)
    fleet.counted(Count(pending=700, completed=300))
    return fleet


def test_workers_that_are_paused_are_counted_apart() -> None:
    fleet = at_ten_a_second(3)
    for _ in range(2):
        said_again(fleet, "worker 0", "worker 1", trouble="the VPN check fails")
    assert drawn(fleet)[1].strip() == "1 running, 2 paused"
    assert progress_line(fleet) == "300 of 1,000 done, 10/s, 1 min 10 s left, 1 worker, 2 paused"


def test_a_fleet_that_is_paused_has_no_pace_and_promises_no_time() -> None:
    fleet = at_ten_a_second(2)
    for _ in range(2):
        said_again(fleet, trouble="the VPN check fails")
    assert drawn(fleet)[1].strip() == "2 paused"
    assert "/s" not in "".join(drawn(fleet))
    assert "left" not in drawn(fleet)[0]
    assert progress_line(fleet) == "300 of 1,000 done, 2 paused"


def test_a_hitch_is_no_pause_and_work_that_goes_on_ends_one() -> None:
    fleet = board(1)
    said_again(fleet, trouble="the queue is busy")
    assert (fleet.paused, fleet.goes_on) == ({}, False)
    said_again(fleet, trouble="the queue is gone")
    assert (fleet.paused, fleet.goes_on) == ({"worker 0": "the queue is gone"}, False)
    said_again(fleet)
    assert (fleet.paused, fleet.goes_on) == ({}, True)


def test_what_a_crashed_process_said_says_nothing_of_the_next() -> None:
    fleet = board(1)
    for _ in range(2):
        said_again(fleet, trouble="the VPN check fails")
    fleet.posts["worker 0"].process = cast("Any", SimpleNamespace(pid=2000))
    assert (fleet.paused, fleet.goes_on) == ({}, False)


@pytest.mark.parametrize(("asked", "hint"), [(Stop.DRAIN, "Ctrl-C again gives back"), (Stop.RELEASE, "10 s at most")])
def test_a_fleet_that_stops_says_what_comes_next_and_promises_no_time(asked: Stop, hint: str) -> None:
    fleet = at_ten_a_second(2)
    fleet.asked = asked
    for post in fleet.posts.values():
        post.phase = Phase.DRAINING
    lines = drawn(fleet)
    assert hint in lines[-1]
    assert "finishes what is under way and stops" not in lines[-1]
    assert "left" not in lines[0]
    assert progress_line(fleet) == "300 of 1,000 done, 10/s, 2 draining"


@pytest.mark.parametrize("phase", [Phase.GIVEN_UP, Phase.ENDED])
def test_a_worker_that_is_gone_for_good_has_no_partitions_any_more(phase: Phase) -> None:
    fleet = board(2)
    fleet.posts["worker 0"].phase, fleet.posts["worker 0"].process = phase, None
    gone, there = fleet.rows()
    assert (gone.partitions, gone.owned) == ((), 0)
    assert there.owned == 5


def test_what_is_open_can_be_told_from_what_is_done_without_colours() -> None:
    head = drawn(board(1))[0]
    done, still_open = head.count("━"), head.count("┄")
    assert done == (done + still_open) // 5 > 5


@pytest.mark.parametrize("done", [1, 20, 30_000])
def test_columns_keep_their_places_whatever_the_rates(done: int) -> None:
    fleet, slow = board(1), board(1)
    for each, completed in ((fleet, done), (slow, 0)):
        cast("ManualClock", each.clock).advance(10.0)
        said_again(each, completed=completed, partitions=("P0",), owned=1)
        each.counted(Count(pending=1000 - min(completed, 700), completed=min(completed, 700)))
    heads = [next(line for line in drawn(each) if "current job" in line) for each in (fleet, slow)]
    assert heads[0] == heads[1]
    assert drawn(fleet)[0].index("/") == drawn(slow)[0].index("/")


def test_what_the_fleet_did_is_what_its_workers_say_and_not_what_the_run_has() -> None:
    fleet = board(2, completed=5, failed=1)
    fleet.counted(Count(pending=10, completed=500, failed=40))
    assert (fleet.completed, fleet.failed) == (10, 2)


def test_a_sentence_on_a_terminal_is_broken_between_words() -> None:
    console = Console(file=io.StringIO(), width=40, height=30, force_terminal=True, color_system=None)
    text = "PAUSED: the VPN check fails: there is no network interface tun99. Nothing new begins."
    fleet_view(console).say(text)
    lines = cast("io.StringIO", console.file).getvalue().splitlines()
    assert len(lines) > 1
    assert " ".join(line.strip() for line in lines) == text


def test_that_all_proxies_rest_is_marked_in_the_picture_and_in_the_line() -> None:
    rest = "all 3 rest at a.org, until 09:12:40"
    fleet = board(2, proxies_rest=rest)
    assert any(f"2 running  proxies: {rest}" in line for line in drawn(fleet))
    assert "2 workers, proxies rest" in progress_line(fleet)
    assert not any("proxies" in line for line in [*drawn(board(2)), progress_line(board(2))])


def test_that_proxies_rest_is_said_once_for_all_workers_and_once_when_none_waits_any_more() -> None:
    fleet, said = board(2), list[str]()
    news = ProxySummary(fleet, said.append)

    def hear(**rests: str) -> None:
        for number, rest in enumerate(rests.values()):
            fleet.hear(f"worker {number}", msgspec.json.encode(WorkerStatus(proxies_rest=rest)))
        news.look()

    hear(first="", second="all 3 rest at a.org")
    hear(first="all 3 rest at b.org", second="all 3 rest at a.org")
    hear(first="all 3 rest at b.org", second="")
    assert [line.partition(". ")[0] for line in said] == ["PROXIES: all 3 rest at a.org"]
    hear(first="", second="")
    assert said[1:] == ["PROXIES: they serve again, and the jobs that waited go on."]
    for post in fleet.posts.values():
        post.phase = Phase.ENDED
    hear(first="", second="")
    assert len(said) == 2
