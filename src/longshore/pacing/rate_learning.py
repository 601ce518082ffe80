"""How answers change the rate of a host. Pure functions: the old state and the answers make the new state.

How it is learned
    The rate rises while answers are good, and every refusal measures what the host allows: `limit_model` says how the
    rate rises, and how two refusals together determine the limit. Answers arrive late and at several processes, so
    the measurement counts slots: how many were handed out between the last refusal and the refused request, and over
    how many seconds. From the second refusal on, the rate stays near the measured limit, and probes above it now and
    then, in case the host allows more by now; the better the measurement, the less often.

    The rate rises only while requests wait for it: a rate that is not used up teaches nothing.

Refusals
    429, 503, a block page, and any answer with Retry-After, is a refusal. Requests that were in flight when the rate
    was lowered do not lower it again.

    Many hosts refuse now and then for no reason, and 403 may forbid a single page. So a refusal far below the limit, or
    a 403, changes hardly anything if it stands alone. If another follows soon, the limit has fallen: the rate becomes
    what was let through between the two, and tries to get back to the old ceiling.

A host that refuses everything
    Its window is full, or it has banned us. Both end by themselves, and neither says that the rate is too high by far.
    So single requests ask at growing gaps until one is accepted. A window lets through its number in the whole of it:
    if the host refused for long, the limit is what came through since it accepted last, divided by all of that time.
    If it refused for a short time, the rate is about right, and the next probe takes many times as long.
"""

from __future__ import annotations

from functools import partial

import msgspec

from longshore.pacing.contract import refusal_in_words
from longshore.pacing.host_rate import WIDEST, AnswerCounts, HostRate, RatePolicy, allows_bursts
from longshore.pacing.latency_learning import asked_less, is_late, is_overloaded, timed
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
    width_of_probe,
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
_SOON = 12
"""With at least this many good answers before it, a refusal below the limit may be an accident; with fewer, the limit
has fallen."""
_ANSWERS_OF_A_WINDOW, _WIDEST_AFTER_A_WINDOW, _NARROWEST_AFTER_A_WINDOW = 4.0, 0.4, 0.1
"""The width of the probe after a full window: the first divided by the answers it let through, within the others."""
_LONGEST_WINDOW = 100.0
"""A host that refuses for longer has banned us, or has a quota: the rest of that time says nothing about its rate."""
_PROBE_SILENCES, _NARROWEST_AFTER_SILENCE = 10.0, 0.005
"""A probe that ended in silence is followed by one that takes this many times as long, but not narrower than that."""
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
        state = timed(state, answers, now)
        if is_overloaded(state, answers):
            state = asked_less(state, now, policy)
        else:
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
    countable = passed if state.pressed and not is_late(state) else 0
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
        through=state.through + passed if state.pressed else 0,
        through_since=(state.through_since or now) if state.pressed else now,
        in_window=state.in_window + passed if state.pressed else 0,
        window_since=(state.window_since or now) if state.pressed else now,
        grown_at=now,
        rounds=0,
    )


# Lowering the rate


def _lowered(state: HostRate, answers: AnswerCounts, now: float, policy: RatePolicy) -> HostRate:
    if state.rounds:
        return _refuses_everything(state, answers, now)
    rate, used, _, _ = _count_slots(state, answers)
    through, seconds = state.through, max(now - state.through_since, 1e-3)
    state = msgspec.structs.replace(state, through=0, through_since=now)
    far_below = state.ceiling > 0 and rate < (1 - _NARROWEST) * state.ceiling
    if through >= _SOON and (far_below or not answers.hard):
        lowered = _stands_alone(state, answers, far_below)
    elif state.ceiling and through < _SOON:
        lowered = _new_ramp(state, _followed(state, rate, through / seconds), answers, now, policy)
    elif state.overshot and used < _TOO_FEW:
        lowered = msgspec.structs.replace(state, refused=state.refused + answers.refused)
    else:
        lowered = _new_ramp(state, _measured(state, answers), answers, now, policy)
    lowered = msgspec.structs.replace(lowered, rounds=1, refusing_since=now)
    if answers.closed_until > now + _CLOSED_GAP:
        # How long the host takes no requests is known: a single request asks then.
        lowered = msgspec.structs.replace(lowered, gap=answers.closed_until - now)
    return lowered


def _stands_alone(state: HostRate, answers: AnswerCounts, far_below: bool) -> HostRate:
    """Return the state after a refusal that is no measurement. The rate stays: if the limit fell, another follows."""
    return msgspec.structs.replace(
        state,
        ceiling=(_BELOW_REFUSED if far_below else 1.0) * state.ceiling,
        since=answers.sent,
        used=_count_slots(state, answers)[3],
        spent=max(state.next - answers.sent, 0.0),
        refused=0,
    )


def _followed(state: HostRate, rate: float, through: float) -> HostRate:
    """Return the state after a refusal soon after another: the rate becomes what is let through, and may rise again.

    The limit has fallen, or a window is full, and lets through what it let through one window ago.
    """
    begin = min(max(through, rate / 2), _BELOW_REFUSED * rate)
    ceiling = (state.ceiling + begin) / 2
    width = max(1 - begin / ceiling, _NARROWEST)
    return msgspec.structs.replace(state, rate=begin, ceiling=ceiling, width=width, passed=0, refused=0)


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
    """Return the state for a host that accepted a single request after it refused everything."""
    silence, active = now - state.refusing_since, state.refusing_since - state.window_since
    rate, ceiling, width, passed, spent = state.rate, state.ceiling, state.width, state.passed, max(now - sent, 0.0)
    if state.in_window >= _SOON and silence > active / 2:
        # On average half of the last gap came after the host had begun to accept; the next would be twice as long.
        whole = active + min(silence - state.gap / 4, _LONGEST_WINDOW)
        limit = state.in_window / whole
        wide = _ANSWERS_OF_A_WINDOW / state.in_window
        wide = min(max(wide, _NARROWEST_AFTER_A_WINDOW), _WIDEST_AFTER_A_WINDOW)
        if (1 - wide) * limit < rate:
            rate, ceiling, width, passed = (1 - wide) * limit, limit, wide, 0
    elif ceiling:
        long = width_of_probe(ceiling, _PROBE_SILENCES * silence)
        width = max(min(width, long), _NARROWEST_AFTER_SILENCE)
        rate, passed, spent = min(rate, (1 - width) * ceiling), 0, silence
    return msgspec.structs.replace(
        state,
        rate=rate,
        ceiling=ceiling,
        overshot=state.overshot or state.rate,
        width=width,
        passed=passed,
        gap=0.0,
        closed_until=min(state.closed_until, now),
        next=max(now, sent + 1 / rate),
        used=1.0,
        spent=spent,
        refused=0,
        since=sent,
        lowered_at=now,
        grown_at=now,
        in_window=1,
        window_since=now,
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
        latency=state.usual_latency,
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
    return msgspec.structs.replace(
        state,
        closed_until=until,
        why=why,
        next=max(state.next, until),
        voided_at=now,
        spent=state.spent + max(until - max(now, state.next), 0.0),
    )
