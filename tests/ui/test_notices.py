"""What is said of a run besides its figures: a line for each pause, limit and closure."""

from __future__ import annotations

import pytest

from longshore.runs.control.growth_limits import LeftOut
from longshore.runs.control.pause import EVERYTHING
from longshore.runs.estimate.estimate import HostLoad
from longshore.runs.watch.blockers import Blockers
from longshore.ui.notices import notices, notices_json
from longshore.ui.words import moment

QUIET = Blockers()


def test_where_there_is_nothing_to_say_nothing_is_said() -> None:
    assert notices(QUIET) == {}
    assert notices(QUIET, [HostLoad("open.org", 3.0, 1.0)]) == {}
    assert notices_json(QUIET) == {}


def test_a_pause_says_how_to_end_it() -> None:
    lines = notices(Blockers(paused={"may": 0.0, EVERYTHING: 0.0}))
    assert len(lines) == 2
    assert lines["paused may"] == f"paused: run may; to let it go on: longshore resume may (since {moment(0.0)})"
    whole = lines[f"paused {EVERYTHING}"]
    assert whole == f"paused: everything; to let it go on: longshore resume --all (since {moment(0.0)})"
    assert max(map(len, lines.values())) <= 100
    assert notices_json(Blockers(paused={"may": 7.0})) == {"paused": {"may": 7.0}}


def test_the_commands_of_notices_name_the_queue() -> None:
    hosts = [HostLoad("1.org", 1.0, 1.0, 60.0)]
    lines = notices(Blockers(paused={"may": 0.0}), hosts, " --queue ./jobs")
    assert "longshore resume may --queue ./jobs (since" in lines["paused may"]
    assert lines["closed"].endswith("why: longshore hosts --queue ./jobs")


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (LeftOut(too_deep=1), "left out: 1 follow-on job (1 too deep)"),
        (LeftOut(too_many=1200), "left out: 1,200 follow-on jobs (1,200 too many)"),
        (LeftOut(too_deep=2, too_many=3), "left out: 5 follow-on jobs (2 too deep, 3 too many)"),
    ],
)
def test_what_limits_left_out_is_counted_by_limit(left_out: LeftOut, said: str) -> None:
    held = Blockers(left_out=left_out)
    assert notices(held) == {"left out": f"{said}, by --max-depth and --max-jobs of the run"}
    found = notices_json(held)["left_out"]
    assert (found["too_deep"], found["too_many"]) == (left_out.too_deep, left_out.too_many)


def test_closed_hosts_are_named_those_that_are_closed_longest_first_and_counted_past_three() -> None:
    hosts = [HostLoad(f"{n}.org", 1.0, 1.0, 60.0 * n) for n in range(6)]
    line = notices(QUIET, hosts)["closed"]
    assert line == (
        "closed: 5.org for 5 min 00 s, 4.org for 4 min 00 s, 3.org for 3 min 00 s and 2 more hosts; "
        "why: longshore hosts"
    )
    assert notices(QUIET, hosts[:2])["closed"] == "closed: 1.org for 1 min 00 s; why: longshore hosts"


def test_names_of_others_give_a_terminal_no_orders() -> None:
    held = Blockers(paused={"r\x1b[31m": 0.0})
    lines = notices(held, [HostLoad("a\x1b]0;x\x07.org", 1.0, 1.0, 5.0)])
    assert not any("\x1b" in line or "\x07" in line for line in lines.values())
