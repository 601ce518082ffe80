"""Taking turns with other machines."""

from __future__ import annotations

from longshore.media.git.sync.push_contention import PushContention


def longest(crowd: PushContention, now: float, *, refused: bool = False) -> float:
    return max(crowd.pause(now, refused=refused) for _ in range(200))


def test_who_is_alone_does_not_wait() -> None:
    crowd = PushContention("me")
    crowd.record_success(0.0)
    assert longest(crowd, 0.1) == 0.0
    assert not crowd.is_stale(0.0, 100.0)


def test_who_has_just_got_through_lets_about_as_many_pass_as_there_are() -> None:
    crowd = PushContention("me")
    crowd.record_pushes(["a", "b", "c", "a"], 1.0)
    crowd.record_success(1.1)
    assert 2 * crowd.attempt_seconds < longest(crowd, 1.2) <= 3 * crowd.attempt_seconds


def test_who_has_been_passed_by_all_does_not_wait_any_more() -> None:
    crowd = PushContention("me")
    crowd.record_pushes(["a", "b", "c"], 1.0)
    crowd.record_success(1.1)
    crowd.record_pushes(["c", "b"], 1.2)
    assert 0 < longest(crowd, 1.3) <= crowd.attempt_seconds
    crowd.record_pushes(["a"], 1.4)
    assert longest(crowd, 1.5) == 0.0


def test_our_own_commits_are_not_taken_for_others() -> None:
    crowd = PushContention("me")
    crowd.record_pushes(["me", "me"], 1.0)
    assert longest(crowd, 1.1) == 0.0
    crowd.record_pushes(["a", "me", "b"], 2.0)
    assert longest(crowd, 2.1) <= crowd.attempt_seconds


def test_those_who_have_left_are_forgotten() -> None:
    crowd = PushContention("me")
    crowd.record_pushes(["a", "b"], 1.0)
    assert crowd.is_stale(0.0, 2.0)
    assert longest(crowd, 100.0) == 0.0
    assert not crowd.is_stale(99.0, 100.0)


def test_who_pushes_without_a_break_leaves_a_gap_less_and_less_often() -> None:
    crowd = PushContention("me")
    gaps = []
    for number in range(100):
        crowd.record_success(number * 0.05)
        if crowd.pause(number * 0.05, refused=False) > 0:
            gaps.append(number)
    assert len(gaps) == 3
    assert gaps[1] - gaps[0] < gaps[2] - gaps[1]
