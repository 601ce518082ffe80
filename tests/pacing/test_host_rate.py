"""The rate of a host, as a value (F4)."""

from __future__ import annotations

import msgspec
import pytest

from longshore.pacing.host_rate import AnswerCounts, HostRate, RatePolicy, reserve, unknown
from longshore.pacing.rate_learning import fold

NOW = 1_700_000_000.0


def refused(status: int = 429, sent: float = NOW, closed_until: float = 0.0) -> AnswerCounts:
    hard = status == 429 or closed_until > 0
    return AnswerCounts(refused=1, hard=hard, status=status, sent=sent, closed_until=closed_until)


def test_slots_follow_one_another_at_the_rate_and_none_is_given_twice() -> None:
    policy = RatePolicy(first=4.0)
    host_rate, first = reserve(unknown(NOW, policy), NOW, 3, policy)
    _, second = reserve(host_rate, NOW, 1, policy)
    assert [*first, *second] == pytest.approx([NOW, NOW + 0.25, NOW + 0.5, NOW + 0.75])


def test_slots_that_nobody_took_are_not_made_up_for() -> None:
    host_rate, _ = reserve(unknown(NOW, RatePolicy()), NOW, 1, RatePolicy())
    assert reserve(host_rate, NOW + 100, 2, RatePolicy())[1] == [NOW + 100, NOW + 101]


def test_what_a_machine_was_late_for_is_made_up_for_where_the_host_allows_bursts() -> None:
    known = msgspec.structs.replace(unknown(NOW, RatePolicy()), rate=10.0, ceiling=10.0, next=NOW - 5)
    for burst, late in ((0.0, 0.0), (8.0, 0.4), (1000.0, 0.5)):
        host_rate = msgspec.structs.replace(known, burst=burst)
        assert reserve(host_rate, NOW, 2, RatePolicy(), NOW - 5)[1] == pytest.approx([NOW - late, NOW - late + 0.1])
        assert reserve(host_rate, NOW, 1, RatePolicy())[1] == [NOW]  # nobody waited: nothing was missed
    crawled = msgspec.structs.replace(known, burst=8.0, crawl_delay=1.0)
    assert reserve(crawled, NOW, 1, RatePolicy(), NOW - 5)[1] == [NOW]


def test_whoever_was_late_for_a_slot_still_waited_for_the_rate() -> None:
    known = msgspec.structs.replace(unknown(NOW, RatePolicy()), rate=100.0, next=NOW - 0.1)
    assert reserve(known, NOW, 1, RatePolicy(), NOW - 0.2)[0].pressed
    assert not reserve(known, NOW, 1, RatePolicy(), NOW)[0].pressed


def test_the_burst_of_a_host_is_learned_with_its_ceiling() -> None:
    known = msgspec.structs.replace(unknown(NOW, RatePolicy()), rate=133.0, overshot=160.0, used=273.0, spent=4.7)
    learned = fold(known, refused(), NOW, RatePolicy())
    assert learned.ceiling == pytest.approx(100, rel=0.1)
    assert learned.burst == pytest.approx(20, abs=6)


def on_a_probe(used: float, spent: float, rate: float) -> HostRate:
    return msgspec.structs.replace(
        unknown(NOW, RatePolicy()), rate=rate, overshot=30.0, ceiling=10.0, width=0.1, used=used, spent=spent, next=NOW
    )


def test_what_came_through_since_the_last_refusal_is_what_the_host_allows() -> None:
    learned = fold(on_a_probe(used=96, spent=8.0, rate=13.2), refused(), NOW, RatePolicy())
    assert learned.ceiling == pytest.approx(12, rel=0.02)
    assert 0.9 * learned.ceiling < learned.rate < learned.ceiling


def test_a_host_that_allows_no_burst_allows_the_rate_at_which_it_refused() -> None:
    known = msgspec.structs.replace(on_a_probe(used=60, spent=6.2, rate=10.4), overshot=10.3)
    assert fold(known, refused(), NOW, RatePolicy()).ceiling == pytest.approx(10.3, rel=0.02)


def test_the_better_a_ceiling_is_known_the_flatter_is_the_next_probe() -> None:
    widths = [fold(on_a_probe(used, used / 12, rate=13.2), refused(), NOW, RatePolicy()).width for used in (7, 12, 200)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1]


def test_slots_of_a_rate_that_was_hardly_too_high_are_kept_where_the_host_allows_bursts() -> None:
    ahead = msgspec.structs.replace(on_a_probe(used=98, spent=8.2, rate=12.5), next=NOW + 0.2, plan=((NOW, 12.5),))
    kept = fold(ahead, refused(), NOW + 0.05, RatePolicy())
    assert (kept.voided_at, kept.next) == (0.0, NOW + 0.2)
    void = fold(msgspec.structs.replace(ahead, rate=25.0), refused(), NOW + 0.05, RatePolicy())
    assert void.voided_at == NOW + 0.05
    assert void.next < NOW + 0.2


def test_a_ceiling_that_was_stored_before_there_were_probes_is_ignored() -> None:
    kept = msgspec.json.decode(b'{"rate": 9.8, "ceiling": 10.0, "overshot": 15.0, "grown_at": 0.0}', type=HostRate)
    assert fold(kept, AnswerCounts(passed=5), NOW, RatePolicy()).rate == pytest.approx(9.8)


def test_what_is_refused_before_there_is_anything_to_count_measures_nothing() -> None:
    known = on_a_probe(used=2, spent=0.2, rate=9.0)
    again = fold(known, refused(), NOW, RatePolicy())
    assert (again.rate, again.ceiling, again.refused) == (known.rate, known.ceiling, 1)


def test_a_host_that_answers_429_to_everything_is_asked_at_growing_gaps() -> None:
    host_rate, now, gaps = unknown(NOW, RatePolicy()), NOW, list[float]()
    while host_rate.closed_until < now + 60:
        host_rate, instants = reserve(host_rate, now, 5 if not gaps else 1, RatePolicy())
        assert len(gaps) < 2 or len(instants) == 1
        gaps.append(instants[-1] - now)
        now = max(now, instants[-1]) + 0.3
        host_rate = fold(host_rate, refused(sent=now - 0.05), now, RatePolicy())
    assert host_rate.refusals <= 8
    assert gaps[2:] == sorted(gaps[2:])
    assert host_rate.rate == 0.5, "the rate is not lowered again and again"


def test_a_host_that_accepts_a_single_request_is_asked_at_its_rate_again() -> None:
    host_rate = fold(unknown(NOW, RatePolicy()), refused(), NOW, RatePolicy())
    host_rate = fold(host_rate, refused(sent=NOW + 10), NOW + 10, RatePolicy())
    assert host_rate.gap
    host_rate, (instant,) = reserve(host_rate, NOW + 10, 3, RatePolicy())
    late = fold(host_rate, AnswerCounts(passed=1, passed_sent=NOW + 9), instant, RatePolicy())
    assert late.gap, "a request that was sent before it refused says nothing"
    open_again = fold(host_rate, AnswerCounts(passed=1, passed_sent=instant), instant + 0.1, RatePolicy())
    assert (open_again.gap, open_again.rounds) == (0.0, 0)
    assert open_again.closed_until <= instant + 0.1
    assert len(reserve(open_again, instant + 5, 3, RatePolicy())[1]) == 3


def test_a_full_window_is_waited_for_and_counted_with_what_it_let_through() -> None:
    """A refusal, ten seconds of silence, and sixty accepted requests: the window is part of the next measurement."""
    known = msgspec.structs.replace(on_a_probe(used=60, spent=5.0, rate=12.0), plan=((NOW - 1, 12.0),))
    first = fold(known, refused(sent=NOW - 0.05), NOW, RatePolicy())
    full = fold(first, refused(sent=first.lowered_at + 0.5), first.lowered_at + 1.0, RatePolicy())
    again = fold(full, AnswerCounts(passed=1, passed_sent=NOW + 10), NOW + 10, RatePolicy())
    assert again.spent == pytest.approx(10.0, abs=0.1)


def test_jitter_puts_off_by_up_to_its_share_and_brings_nothing_forward() -> None:
    _, instants = reserve(unknown(NOW, RatePolicy()), NOW, 200, RatePolicy(jitter=0.3))
    put_off = [instant - NOW - number for number, instant in enumerate(instants)]
    assert min(put_off) >= 0
    assert 0.2 < max(put_off) <= 0.3 + 1e-6


def test_the_rate_stays_within_its_bounds() -> None:
    policy = RatePolicy(slowest=0.5, fastest=3.0)
    fast = slow = unknown(NOW, policy)
    for second in range(1, 30):
        fast = fold(fast, AnswerCounts(passed=10), NOW + second, policy)
        slow = fold(slow, refused(403, NOW + 1000 * second), NOW + 1000 * second, policy)
    assert (fast.rate, slow.rate) == (3.0, 0.5)


def test_requests_that_were_on_their_way_do_not_lower_the_rate_again() -> None:
    climbed = fold(unknown(NOW, RatePolicy()), AnswerCounts(passed=20), NOW + 10, RatePolicy())
    once = fold(climbed, refused(sent=NOW + 10), NOW + 10, RatePolicy())
    twice = fold(once, refused(sent=NOW + 9.99), NOW + 10.1, RatePolicy())
    assert once.rate < climbed.rate
    assert twice.rate == once.rate
    assert twice.refusals == 2


def test_a_forbidden_page_halves_the_rate_and_leaves_the_ceiling() -> None:
    known = msgspec.structs.replace(unknown(NOW, RatePolicy()), rate=8.0, ceiling=9.0)
    answers = AnswerCounts()
    answers.refuse_one(403, NOW)
    lowered = fold(known, answers, NOW, RatePolicy())
    assert (lowered.rate, lowered.ceiling) == (4.0, 9.0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_host_that_is_too_busy_is_measured(status: int) -> None:
    answers = AnswerCounts()
    answers.refuse_one(status, NOW)
    learned = fold(on_a_probe(used=96, spent=8.0, rate=13.2), answers, NOW, RatePolicy())
    assert learned.ceiling == pytest.approx(12, rel=0.02)


def test_a_closure_is_not_shortened_by_a_later_answer() -> None:
    closed = fold(unknown(NOW, RatePolicy()), refused(closed_until=NOW + 500), NOW, RatePolicy())
    again = fold(closed, refused(sent=NOW + 1, closed_until=NOW + 100), NOW + 1, RatePolicy())
    assert again.closed_until == NOW + 500
    assert reserve(again, NOW + 1, 1, RatePolicy())[1] == [NOW + 500]


def test_a_standing_comes_back_from_json_as_it_was() -> None:
    host_rate, _ = reserve(fold(unknown(NOW, RatePolicy()), refused(), NOW, RatePolicy()), NOW, 2, RatePolicy())
    assert msgspec.json.decode(msgspec.json.encode(host_rate), type=HostRate) == host_rate
