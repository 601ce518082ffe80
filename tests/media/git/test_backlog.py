"""The order of pending jobs, against a model that sorts them all each time."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from longshore.media.git.backlog import Backlog
from longshore.media.git.record import Place

LANES = range(1, 5)


class Model:
    """The pending jobs and their backlog, changed as a ledger changes them."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.pending: dict[int, Place] = {}
        self.backlog = Backlog(self.pending)
        self.now = 0.0

    def some_place(self, number: int) -> Place:
        due = self.chance.choice([None, None, int(self.now * 1000) + self.chance.randrange(-2000, 5000)])
        return Place(
            number=number,
            lane=self.chance.choice(LANES),
            identity="0" * 32,
            priority=self.chance.randrange(-1, 2),
            due=None if due is None else max(due, 0),
        )

    def learn(self, place: Place) -> None:
        self.pending[place.number] = place
        self.backlog.add(place)

    def due_in(self, lanes: list[int]) -> list[Place]:
        found = [
            place
            for place in self.pending.values()
            if place.lane in lanes and (place.due is None or place.due <= self.now * 1000)
        ]
        return sorted(found, key=lambda place: (place.priority, place.number))

    def step(self) -> None:
        lanes = [lane for lane in LANES if self.chance.random() < 0.5]
        match self.chance.randrange(6):
            case 0 | 1:  # a few numbers are given again and again, as after refused pushes
                number = self.chance.randrange(12)
                self.pending.pop(number, None)
                self.learn(self.some_place(number))
            case 2:
                self.pending.pop(self.chance.randrange(12), None)
            case 3:  # the same place is left and taken again
                number = self.chance.randrange(12)
                if (place := self.pending.pop(number, None)) is not None:
                    self.learn(place)
            case 4:
                self.now += self.chance.random()
            case _:
                limit = self.chance.randrange(1, 5)
                wanted = self.due_in(lanes)[:limit]
                taken = []
                for place in islice(self.backlog.pick(lanes, self.now), limit):
                    del self.pending[place.number]
                    taken.append(place)
                assert taken == wanted
        assert self.backlog.has_work(lanes, self.now) == bool(self.due_in(lanes))
        waiting = [
            place.due for place in self.pending.values() if place.due is not None and place.due > self.now * 1000
        ]
        assert self.backlog.next_due() == (min(waiting) / 1000 if waiting else None)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_and_goes_the_backlog_gives_what_sorting_everything_gives(seed: int) -> None:
    model = Model(random.Random(seed))
    for _ in range(500):
        model.step()


def test_looking_at_the_first_job_takes_nothing_away() -> None:
    pending = {1: Place(number=1, lane=1, identity="0" * 32)}
    backlog = Backlog(pending)
    backlog.add(pending[1])
    assert next(backlog.pick([1], 0.0)) is next(backlog.pick([1], 0.0)) is pending[1]
