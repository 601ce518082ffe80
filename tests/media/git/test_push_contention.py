"""Taking turns with other machines."""

from __future__ import annotations

from longshore.media.git.sync.push_contention import PushContention


def longest(contention: PushContention, now: float, *, refused: bool = False) -> float:
    return max(contention.pause(now, refused=refused) for _ in range(200))


def test_a_machine_that_is_alone_does_not_wait() -> None:
    contention = PushContention("me")
    contention.record_success(0.0)
    assert longest(contention, 0.1) == 0.0
    assert not contention.is_stale(0.0, 100.0)


def test_a_machine_whose_push_succeeded_lets_the_others_go_first() -> None:
    contention = PushContention("me")
    contention.record_pushes(["a", "b", "c", "a"], 1.0)
    contention.record_success(1.1)
    assert 2 * contention.attempt_seconds < longest(contention, 1.2) <= 3 * contention.attempt_seconds


def test_a_machine_that_all_others_have_passed_does_not_wait() -> None:
    contention = PushContention("me")
    contention.record_pushes(["a", "b", "c"], 1.0)
    contention.record_success(1.1)
    contention.record_pushes(["c", "b"], 1.2)
    assert 0 < longest(contention, 1.3) <= contention.attempt_seconds
    contention.record_pushes(["a"], 1.4)
    assert longest(contention, 1.5) == 0.0


def test_our_own_commits_do_not_count_as_pushes_of_others() -> None:
    contention = PushContention("me")
    contention.record_pushes(["me", "me"], 1.0)
    assert longest(contention, 1.1) == 0.0
    contention.record_pushes(["a", "me", "b"], 2.0)
    assert longest(contention, 2.1) <= contention.attempt_seconds


def test_machines_that_no_longer_push_are_forgotten() -> None:
    contention = PushContention("me")
    contention.record_pushes(["a", "b"], 1.0)
    assert contention.is_stale(0.0, 2.0)
    assert longest(contention, 100.0) == 0.0
    assert not contention.is_stale(99.0, 100.0)


def test_a_machine_that_pushes_continuously_leaves_gaps_at_growing_intervals() -> None:
    contention = PushContention("me")
    gaps = []
    for number in range(100):
        contention.record_success(number * 0.05)
        if contention.pause(number * 0.05, refused=False) > 0:
            gaps.append(number)
    assert len(gaps) == 3
    assert gaps[1] - gaps[0] < gaps[2] - gaps[1]
