"""Learn from latency: an overloaded host answers later and later, and may never refuse. Pure functions.

The latency of the last answers is compared with the usual one. While it is a little above, the rate does not rise. When
it is far above, requests wait at the host, so as many as it answers are as many as it can take: that is the ceiling.
The usual latency follows slowly what is measured, so a site whose pages became slower is not taken for overloaded for
long.
"""

from __future__ import annotations

import math

import msgspec

from longshore.pacing.host_rate import AnswerCounts, HostRate, RatePolicy

_RECENT, _USUAL = 16.0, 64.0
"""How many answers the latency of the last ones, and the usual one, are the mean of, roughly."""
_LATE_USUAL = 8 * _USUAL
"""The same for the usual latency while answers are late: then most of the delay is the load."""
_SPIKE = 3.0
"""Answers count as at most this many times the usual latency: a single one that hung says nothing."""
_LATE, _OVERLOADED = 1.3, 1.6
"""Times the usual latency from which on the rate does not rise, and the host is overloaded."""
_TEMPO_SECONDS = 2.0
"""For how long answers are counted, roughly."""
_SLOWEST_TEMPO = 3.0
"""The rate falls at most by this factor at once: after a steep ramp the answers of the last seconds are too few."""
_CEILING, _BEGIN, _WIDTH = 0.97, 0.85, 0.05
"""The ceiling and the rate after an overload, as shares of what the host answered, and the width of the next probe."""
_QUEUE_LATENCIES = 2.0
"""For this many times its latency an overloaded host still answers what was sent before."""


def timed(state: HostRate, answers: AnswerCounts, now: float) -> HostRate:
    """Return the state with the latency of these good answers, and how many come in a second."""
    passing = max(now - state.grown_at, 1e-6)
    tempo = state.tempo + (answers.passed / passing - state.tempo) * -math.expm1(-passing / _TEMPO_SECONDS)
    if answers.passed_sent < state.lowered_at:
        return msgspec.structs.replace(state, tempo=tempo)  # the latency is that of an earlier rate
    mean = answers.seconds / answers.passed
    if not state.usual_latency:
        return msgspec.structs.replace(state, tempo=tempo, latency=mean, usual_latency=mean)
    mean = min(mean, _SPIKE * state.usual_latency)
    latency = mean + (state.latency - mean) * (1 - 1 / _RECENT) ** answers.passed
    many = _USUAL if latency < _LATE * state.usual_latency else _LATE_USUAL
    weight = 1 - (1 - 1 / min(many, max(state.answers, 2))) ** answers.passed
    usual = state.usual_latency + weight * (latency - state.usual_latency)
    return msgspec.structs.replace(state, tempo=tempo, latency=latency, usual_latency=usual)


def is_late(state: HostRate) -> bool:
    """Return whether answers are so late that the rate must not rise."""
    return state.latency > _LATE * state.usual_latency


def is_overloaded(state: HostRate, answers: AnswerCounts) -> bool:
    """Return whether these answers show that requests wait at the host."""
    late = state.latency > _OVERLOADED * state.usual_latency
    return late and state.pressed and answers.passed_sent >= state.lowered_at


def asked_less(state: HostRate, now: float, policy: RatePolicy) -> HostRate:
    """Return the state for an overloaded host: the rate is a little below what it answers."""
    through = min(max(state.tempo, state.rate / _SLOWEST_TEMPO), state.rate)
    rate = max(_BEGIN * through, policy.slowest)
    return msgspec.structs.replace(
        state,
        rate=rate,
        ceiling=_CEILING * through,
        width=_WIDTH,
        passed=0,
        overshot=state.overshot or state.rate,
        latency=state.usual_latency,
        next=max(state.next, now + max(1 / rate, state.crawl_delay)),
        lowered_at=max(state.next, now) + _QUEUE_LATENCIES * state.latency,
        voided_at=now,
        grown_at=now,
    )
