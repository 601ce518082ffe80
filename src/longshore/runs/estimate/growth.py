"""The growth of a run: how many follow-on jobs its jobs create.

The parents of jobs are not read. The counts at two moments tell how many jobs of each kind have finished in between and
how many were added; over many moments that tells which kinds create which, because a kind that finishes while none is
added creates none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from longshore.queue import Count

_KEPT = 64
_KINDS = 6
"""The number of kinds, the largest ones, that are considered."""
_ROUNDS = 20
_SELF_FACTOR = 0.1
"""Initial factor for a kind that creates itself, relative to other kinds that may create it."""
_GENERATIONS = 40
_ONE = 0.5
"""A generation with at least this many expected jobs is counted."""
_END = 0.01
"""If the last generation has more than this share of all jobs, no end is in sight."""


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The follow-on jobs that a run will get."""

    more: float | None
    """Follow-on jobs that each unfinished job leads to in the end; None if no end is in sight."""
    doubt: float
    """Uncertainty of `more`: the standard deviation of its logarithm."""
    generations: int = 0
    """Number of further generations; each generation waits for the one before it."""


class _Row(msgspec.Struct, frozen=True):
    finished: Counter[str]
    added: Counter[str]


class GrowthWatch:
    """Learns the growth of a run from its counts."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._seen: tuple[Counter[str], Counter[str]] | None = None

    def add(self, lanes: Sequence[Count]) -> None:
        """Add the current counts of the run."""
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
        """Return the expected growth of a run that may have at most `max_jobs` jobs in all."""
        weighted = self._weighted()
        added = sum(weight * row.added.total() for weight, row in weighted)
        if not added:
            return Growth(more=0.0, doubt=0.0)
        left = Counter[str]()
        for lane in lanes:
            left[lane.kind] += lane.remaining
        kinds = [kind for kind, _ in sum((row.finished for _, row in weighted), left.copy()).most_common(_KINDS)]
        leads = {to: _leads(weighted, kinds, to) for to in kinds}
        quota = float("inf") if max_jobs is None else float(max(max_jobs - sum(lane.total for lane in lanes), 0))
        coming, now, generations = 0.0, float(left.total()), 0
        generation: dict[str, float] = dict(left)
        for _ in range(_GENERATIONS):
            generation = {to: sum(leads[to][kind] * generation.get(kind, 0.0) for kind in kinds) for to in kinds}
            now = sum(generation.values())
            coming += now
            generations += now >= _ONE
            if coming >= quota:
                # The limit of the run is reached for certain.
                return Growth(more=quota / max(left.total(), 1), doubt=0.0, generations=generations if quota else 0)
        if now > _END * (coming + left.total()):
            return Growth(more=None, doubt=0.0)
        more = coming / max(left.total(), 1)
        # Random variation of the observed growth, which multiplies over the generations, and of the future growth.
        doubt = (1 + more) * math.sqrt(2 / (added + 1)) + math.sqrt((1 + more) / max(left.total(), 1))
        return Growth(more=more, doubt=min(doubt, 1.0), generations=generations)

    def _weighted(self) -> list[tuple[float, _Row]]:
        """Return the rows with weights that favour recent ones."""
        half_life = max(sum(row.finished.total() for row in self._rows) / 3, 30)
        weighted, age = [], 0.0
        for row in reversed(self._rows):
            weighted.append((0.5 ** (age / half_life), row))
            age += row.finished.total()
        return weighted


def _leads(weighted: Sequence[tuple[float, _Row]], kinds: Sequence[str], to: str) -> Mapping[str, float]:
    """Return how many jobs of kind `to` a job of each kind creates, by expectation maximisation."""
    rows = [(weight, row.finished, row.added[to]) for weight, row in weighted if row.finished]
    number = {kind: sum(weight * finished[kind] for weight, finished, _ in rows) for kind in kinds}
    came = sum(weight * added for weight, _, added in rows)
    leads = {kind: came / max(sum(number.values()), 1e-9) if number[kind] else 0.0 for kind in kinds}
    if leads.get(to) and sum(map(bool, leads.values())) > 1:
        # If both finish all the time, lists that create pages are more probable than pages that create pages.
        leads[to] *= _SELF_FACTOR
    for _ in range(_ROUNDS if came else 0):
        due = dict.fromkeys(kinds, 0.0)
        for weight, finished, added in rows:
            expected = sum(finished[kind] * leads[kind] for kind in kinds)
            for kind in kinds if added and expected > 0 else ():
                due[kind] += weight * finished[kind] * leads[kind] * added / expected
        leads = {kind: due[kind] / number[kind] if number[kind] else 0.0 for kind in kinds}
    return leads
