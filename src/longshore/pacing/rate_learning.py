"""How answers change the rate of a host. Pure functions: the old state and the answers make the new state.

How it is learned
    The rate rises while answers are good, and every refusal measures what the host allows: `limit_model` says how the
    rate rises, and how two refusals together determine the limit. Answers arrive late and at several processes, so
    the measurement counts slots: how many were handed out between the last refusal and the refused request, and over
    how many seconds. From the second refusal on, the rate stays near the measured limit, and probes above it now and
    then, in case the host allows more by now; the better the measurement, the less often.

    The rate rises only while requests wait for it: a rate that is not used up teaches nothing.

Refusals
    429, 503, a block page, and any answer with Retry-After, is a refusal. 403 may forbid a single page, so it halves
    the rate and leaves the ceiling: if that was the cause, the rate is soon back. Requests that were in flight when the
    rate was lowered do not lower it again; neither does a refusal before there are enough slots to count.

A host that refuses everything
    Its window is full, or it has banned us. Both end by themselves, and neither says that the rate is too high by far.
    So the rate is lowered once, and single requests ask at growing gaps until one is accepted. The time for which the
    host refused counts in the next measurement: a window lets through its number in the whole of it.
"""

from __future__ import annotations

from functools import partial

import msgspec

from longshore.pacing.contract import refusal_in_words
from longshore.pacing.host_rate import WIDEST, AnswerCounts, HostRate, RatePolicy, allows_bursts
from longshore.pacing.limit_model import (
    ANSWERS_TO_DOUBLE,
    SLOW_FACTOR,
    SLOW_FROM,
    limit_explaining_both,
    middle_of_last_step,
    overshoot,
    probe_overshoot,
    probe_rate,
    slow_ramp_overshoot,
)

_OUTDATED_FACTOR = 2.0
"""A rate this many times the first refused one, without a second refusal, makes the first refusal obsolete."""
_WIDEST_IF_SLOW, _NARROWEST = 0.15, 0.03
"""How far below the ceiling a probe starts, as a share of it, by how well the ceiling is known. At low rates each
refusal is a larger share of the answers, so probes are longer."""
_SLOW_PER_SECOND = 5.0
_BELOW_REFUSED, _BELOW_MEASURED = 0.97, 0.99
"""The ceiling is at most this share of the rate that was refused, and of the limit that was measured."""
_NO_BURST = 0.25
"""Two ramps with less overshoot than this ended at the limit itself."""
_FIRST_RAMP_TRUST = 0.75
"""The share of the burst measured by the fast ramp that is relied on: so steep a ramp overestimates the burst."""
_CERTAIN = 0.4
"""A probe whose overshoot is less than this share of the burst cannot have filled the bucket."""
_TOO_FEW, _FEW = 3, 6
"""Fewer slots than the first since the last refusal measure nothing; fewer than the second hardly anything."""
_GRACE_SECONDS = 0.25
"""For this long, processes that do not know yet that their slots are void may still use them."""
_CLEARING_SECONDS = 0.1
"""For this long no slots are handed out after slots became void: in most cases the other processes know by then."""
_VOID_BELOW = 0.8
"""If the rate falls below this share of the old one, the slots reserved at the old rate become void."""
_CLOSED_GAP = 2.0
"""A host with a longer gap counts as closed, so that workers take other jobs."""


def fold(state: HostRate, answers: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    """Return the state after these answers."""
    state = msgspec.structs.replace(
        state,
        crawl_delay=answers.crawl_delay or state.crawl_delay,
        answers=state.answers + answers.passed + answers.refused,
        refusals=state.refusals + answers.refused,
    )
    if answers.late_use and state.crawl_delay:
        state = msgspec.structs.replace(state, next=max(state.next, answers.late_use + state.crawl_delay))
    if answers.passed:
        if state.gap and answers.passed_sent >= state.lowered_at:
            state = _accepts_again(state, answers.passed_sent, now)
        state = _raised(state, answers.passed, now, policy)
    if answers.refused:
        state = msgspec.structs.replace(state, last_refusal=now, last_status=answers.status)
        if answers.sent >= state.lowered_at:
            state = _lowered(state, answers, now, policy)
        elif answers.sent > state.since:
            state = msgspec.structs.replace(state, refused=state.refused + answers.refused)
        state = _closed(
            state, answers.closed_until, f"it answered {refusal_in_words(answers.status)} with Retry-After", now
        )
    return state


# Raising the rate


def _raised(state: HostRate, passed: int, now: float, policy: RatePolicy) -> HostRate:
    rate, overshot = state.rate, state.overshot
    countable = passed if state.pressed else 0
    doublings = min(max(now - state.grown_at, 0.0), countable / ANSWERS_TO_DOUBLE)
    if state.ceiling:
        goal = probe_rate(state.ceiling, state.width, state.passed + countable)
        rate = max(rate, min(rate * 2 ** (doublings / SLOW_FACTOR), goal))
    else:
        slow = overshot and rate >= SLOW_FROM * overshot
        rate *= 2 ** (doublings / SLOW_FACTOR if slow else doublings)
        if rate > _OUTDATED_FACTOR * overshot:
            overshot = 0.0
    return msgspec.structs.replace(
        state,
        rate=min(max(rate, policy.slowest), policy.fastest),
        overshot=overshot,
        passed=state.passed + countable,
        grown_at=now,
        rounds=0,
    )


# Lowering the rate


def _lowered(state: HostRate, answers: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    if state.rounds:
        return _refuses_everything(state, answers, now)
    if not answers.hard:
        lowered = _slowed_to(state, state.rate / 2, now, policy)
    elif state.overshot and _count_slots(state, answers)[1] < _TOO_FEW:
        lowered = msgspec.structs.replace(state, refused=state.refused + answers.refused)
    else:
        lowered = _new_ramp(state, _measured(state, answers), answers, now, policy)
    return msgspec.structs.replace(lowered, rounds=1, refusing_since=now)


def _refuses_everything(state: HostRate, answers: AnswerCounts, now: float) -> HostRate:
    """Let only single requests through, at growing gaps, until one is accepted. The rate is kept for that time.

    A window that is full ends by itself, and so does a ban.
    """
    rounds, gap = state.rounds + 1, state.gap or max(2 / state.rate, _CLEARING_SECONDS)
    following = max(now + max(gap, state.crawl_delay), state.closed_until) if not state.gap else state.next
    full = msgspec.structs.replace(
        state, rounds=rounds, gap=gap, next=following, lowered_at=now, voided_at=now, plan=(), since=now
    )
    if following - now <= _CLOSED_GAP:
        return full
    return _closed(
        full, following, f"it refused {rounds} times in a row, last with {refusal_in_words(answers.status)}", now
    )


def _accepts_again(state: HostRate, sent: float, now: float) -> HostRate:
    """Return the state for a host that accepted a single request. The time for which it refused is part of the ramp."""
    return msgspec.structs.replace(
        state,
        gap=0.0,
        closed_until=min(state.closed_until, now),
        next=max(now, sent + 1 / state.rate),
        used=1.0,
        spent=now - state.refusing_since,
        since=sent,
        lowered_at=now,
        grown_at=now,
    )


def _slowed_to(state: HostRate, rate: float, now: float, policy: RatePolicy) -> HostRate:
    rate = max(rate, policy.slowest)
    return msgspec.structs.replace(
        state,
        rate=rate,
        next=max(state.next, now + max(1 / rate, state.crawl_delay)),
        lowered_at=max(state.next, now) + _GRACE_SECONDS,
        voided_at=now,
        grown_at=now,
    )


def _new_ramp(state: HostRate, learned: HostRate, answers: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    """Start a new ramp: with the slots that are handed out already, or after them if they are void."""
    rate = max(learned.rate, policy.slowest)
    begun = msgspec.structs.replace(
        learned,
        rate=rate,
        since=answers.sent,
        used=_count_slots(state, answers)[3],
        spent=max(state.next - answers.sent, 0.0),
        lowered_at=max(state.next, now) + _GRACE_SECONDS,
        grown_at=now,
    )
    if rate >= _VOID_BELOW * state.rate and allows_bursts(learned):
        return begun
    after = max(now + max(1 / rate, state.crawl_delay), min(state.next, now + _CLEARING_SECONDS))
    return msgspec.structs.replace(
        begun, next=after, plan=(), since=begun.lowered_at, used=0.0, spent=after - now, voided_at=now
    )


def _count_slots(state: HostRate, answers: AnswerCounts) -> tuple[float, float, float, float]:
    """Return the rate at which the refused request was spaced, the slots before it, their seconds, the slots after."""
    rate, after, end = state.rate, 0.0, state.next
    for begin, spacing in reversed(state.plan):
        rate = spacing
        after += max(end - max(begin, answers.sent), 0.0) * spacing
        end = begin
        if begin + 0.9 / spacing <= answers.sent:  # the reservation before determined the distance to the first slot
            break
    return rate, state.used - after, max(state.spent - max(state.next - answers.sent, 0.0), 1e-3), after


def _measured(state: HostRate, answers: AnswerCounts) -> HostRate:
    """Return the state with the ceiling and the rate that a refusal measured."""
    rate, used, spent, _ = _count_slots(state, answers)
    ceiling, overshot, width = state.ceiling, state.overshot, state.width
    mean = min(max((used - state.refused) / spent, rate / (2 if used < _FEW else 16)), rate)
    if not overshot:
        # The more requests passed, the more of them may have been the burst. The next ramp must start below the limit.
        begin = min(max(mean / min(3.0, 2.0 + state.passed / 28), rate / 16), rate / 2)
        overshot = middle_of_last_step(rate)
    elif not ceiling:
        first = partial(overshoot, overshot, slowness=1.0)
        second = partial(slow_ramp_overshoot, rate, SLOW_FROM * overshot)
        limit = limit_explaining_both(second, first, mean, rate)
        ceiling = _BELOW_REFUSED * rate if first(limit) < _NO_BURST else min(limit, _BELOW_REFUSED * rate)
        width = WIDEST if ceiling >= _SLOW_PER_SECOND else _WIDEST_IF_SLOW
        begin = (1 - width) * ceiling
    else:
        first = partial(overshoot, overshot, slowness=1.0)
        last = partial(probe_overshoot, rate, ceiling=ceiling, width=width)
        limit = limit_explaining_both(last, lambda level: _FIRST_RAMP_TRUST * first(level), mean, rate)
        doubt = 0.5 / used
        if last(mean) > _CERTAIN * first(mean):
            doubt = max(doubt, (rate / mean - 1) / 8)
        if abs(limit / ceiling - 1) < width:
            doubt = min(doubt, width / 2)
        ceiling, width = _BELOW_MEASURED * limit, min(max(doubt, _NARROWEST), WIDEST)
        begin = (1 - width) * limit
    return msgspec.structs.replace(
        state,
        rate=begin,
        ceiling=ceiling,
        overshot=overshot,
        burst=overshoot(overshot, ceiling, 1.0) if ceiling else 0.0,
        width=width,
        passed=0,
        refused=0,
    )


def _closed(state: HostRate, until: float, why: str, now: float) -> HostRate:
    if until <= max(state.closed_until, now):
        return state
    # Slots that are reserved already would be used while the host is closed.
    return msgspec.structs.replace(state, closed_until=until, why=why, next=max(state.next, until), voided_at=now)
