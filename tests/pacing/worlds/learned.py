"""The learned rate of `longshore.pacing.host_rate`, as a policy for simulated worlds."""

from __future__ import annotations

from tests.pacing.worlds.world import View

from longshore.pacing.host_rate import (
    AnswerCounts,
    HostRate,
    RatePolicy,
    catch_up,
    interval,
    reserve,
    unknown,
)
from longshore.pacing.rate_learning import fold

POLICY = RatePolicy()


class Learned:
    """The rate that workers learn together."""

    shared = True

    def first(self, now: float) -> HostRate:
        return unknown(now, POLICY)

    def fold(self, state: HostRate, answers: AnswerCounts, now: float) -> HostRate:
        return fold(state, answers, now, POLICY)

    def reserve(self, state: HostRate, now: float, count: int, since: float) -> tuple[HostRate, list[float]]:
        return reserve(state, now, count, POLICY, since)

    def view(self, state: HostRate) -> View:
        return View(
            max(state.next, state.closed_until),
            state.voided_at,
            interval(state, POLICY),
            0.1,
            catch_up(state, POLICY),
            bool(state.gap),
            state.slots,
        )
