"""How a run grows while it is worked on: how many jobs its jobs lead to.

Which job added which is not looked up. Counts at two moments tell how many of each kind have finished in between and
how many have come; over many moments that tells which kinds lead to which: those that finish when nothing comes lead to
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from longshore.queue import Count

_KEPT = 64
_KINDS = 6
"""The kinds, the most numerous, that are told apart."""
_ROUNDS = 20
_ITSELF = 0.1
"""How likely a kind leads to itself, beside others that may lead to it."""
_GENERATIONS = 40
_ONE = 0.5
"""So many jobs expected in a generation are one."""
_END = 0.01
"""The last generation has this share of all jobs at most, or there is no end in sight."""


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What will come on top of the jobs there are."""

    more: float | None
    """Jobs that each unfinished one leads to, in the end; None where no end is in sight."""
    doubt: float
    """How far that may be wrong: the deviation of its logarithm."""
    generations: int = 0
    """How many times, one after the other, jobs will lead to more: the last have to wait for all before them."""


class _Row(msgspec.Struct, frozen=True):
    finished: Counter[str]
    added: Counter[str]


class GrowthWatch:
    """Sees the counts of a run again and again."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._seen: tuple[Counter[str], Counter[str]] | None = None

    def note(self, lanes: Sequence[Count]) -> None:
        """The run stands so now."""
        finished, total = Counter[str](), Counter[str]()
        for lane in lanes:
            finished[lane.kind] += lane.total - lane.remaining
            total[lane.kind] += lane.total
        before, self._seen = self._seen, (finished, total)
        if before is None or (finished == before[0] and total == before[1]):
            return
        self._rows.append(_Row(finished - before[0], total - before[1]))
        if len(self._rows) > _KEPT:
            old, recent = self._rows[: _KEPT // 2], self._rows[_KEPT // 2 :]
            joined = [
                _Row(a.finished + b.finished, a.added + b.added) for a, b in zip(old[::2], old[1::2], strict=True)
            ]
            self._rows = joined + recent

    def growth(self, lanes: Sequence[Count], max_jobs: int | None = None) -> Growth:
        """What will come, going by what came, to a run that may have so many jobs in all."""
        weighed = self._weighed()
        added = sum(weight * row.added.total() for weight, row in weighed)
        if not added:
            return Growth(more=0.0, doubt=0.0)
        left = Counter[str]()
        for lane in lanes:
            left[lane.kind] += lane.remaining
        kinds = [kind for kind, _ in sum((row.finished for _, row in weighed), left.copy()).most_common(_KINDS)]
        leads = {to: _leads(weighed, kinds, to) for to in kinds}
        room = float("inf") if max_jobs is None else float(max(max_jobs - sum(lane.total for lane in lanes), 0))
        coming, now, generations = 0.0, float(left.total()), 0
        generation: dict[str, float] = dict(left)
        for _ in range(_GENERATIONS):
            generation = {to: sum(leads[to][kind] * generation.get(kind, 0.0) for kind in kinds) for to in kinds}
            now = sum(generation.values())
            coming += now
            generations += now >= _ONE
            if coming >= room:
                # It would be more, and there is room for no more: that much is sure.
                return Growth(more=room / max(left.total(), 1), doubt=0.0, generations=generations if room else 0)
        if now > _END * (coming + left.total()):
            return Growth(more=None, doubt=0.0)
        more = coming / max(left.total(), 1)
        # Chance in what was seen, which counts the more the more generations follow, and in what will be.
        doubt = (1 + more) * math.sqrt(2 / (added + 1)) + math.sqrt((1 + more) / max(left.total(), 1))
        return Growth(more=more, doubt=min(doubt, 1.0), generations=generations)

    def _weighed(self) -> list[tuple[float, _Row]]:
        """What was seen lately counts more."""
        half_life = max(sum(row.finished.total() for row in self._rows) / 3, 30)
        weighed, age = [], 0.0
        for row in reversed(self._rows):
            weighed.append((0.5 ** (age / half_life), row))
            age += row.finished.total()
        return weighed


def _leads(weighed: Sequence[tuple[float, _Row]], kinds: Sequence[str], to: str) -> Mapping[str, float]:
    """How many jobs of that kind one of each kind leads to, most likely (by expectation and maximisation)."""
    rows = [(weight, row.finished, row.added[to]) for weight, row in weighed if row.finished]
    number = {kind: sum(weight * finished[kind] for weight, finished, _ in rows) for kind in kinds}
    came = sum(weight * added for weight, _, added in rows)
    leads = {kind: came / max(sum(number.values()), 1e-9) if number[kind] else 0.0 for kind in kinds}
    if leads.get(to) and sum(map(bool, leads.values())) > 1:
        # Where both finish all the time, lists that lead to pages are likelier than pages that lead to pages.
        leads[to] *= _ITSELF
    for _ in range(_ROUNDS if came else 0):
        due = dict.fromkeys(kinds, 0.0)
        for weight, finished, added in rows:
            expected = sum(finished[kind] * leads[kind] for kind in kinds)
            for kind in kinds if added and expected > 0 else ():
                due[kind] += weight * finished[kind] * leads[kind] * added / expected
        leads = {kind: due[kind] / number[kind] if number[kind] else 0.0 for kind in kinds}
    return leads
