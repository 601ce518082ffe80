"""The order of pending jobs, compared with a model that reads all of them each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from longshore.media.git.state.backlog import Backlog
from longshore.media.git.state.branch_files import JobPath

LANES = range(1, 5)
HOSTS = ("", "aaa", "bbb", "ccc")
NOBODY: frozenset[str] = frozenset()


def place(number: int, host: str = "", lane: int = 1, priority: int = 0, due: int | None = None) -> JobPath:
    return JobPath(number=number, lane=lane, identity="0" * 32, host=host, priority=priority, due=due)


class Model:
    """The pending jobs and their backlog, changed as `BranchState` changes them."""

    def __init__(self, chance: random.Random, hosts: tuple[str, ...]) -> None:
        self.chance = chance
        self.hosts = hosts
        self.pending: dict[int, JobPath] = {}
        self.backlog = Backlog(self.pending)
        self.now = 0.0

    def some_place(self, number: int) -> JobPath:
        due = self.chance.choice([None, None, int(self.now * 1000) + self.chance.randrange(-2000, 5000)])
        return place(
            number,
            self.chance.choice(self.hosts),
            self.chance.choice(LANES),
            self.chance.randrange(-1, 2),
            None if due is None else max(due, 0),
        )

    def update(self, place: JobPath) -> None:
        self.pending[place.number] = place
        self.backlog.add(place)

    def due_in(self, lanes: list[int], without: frozenset[str]) -> list[JobPath]:
        found = [
            place
            for place in self.pending.values()
            if place.lane in lanes and place.host not in without and (place.due is None or place.due <= self.now * 1000)
        ]
        return sorted(found, key=lambda place: (place.priority, place.number))

    def check(self, taken: list[JobPath], wanted: list[JobPath], limit: int) -> None:
        """Assert that the contract allows taking these of the wanted jobs."""
        assert [each.priority for each in taken] == [each.priority for each in wanted[:limit]]
        for level in {each.priority for each in taken}:
            mine = [each for each in taken if each.priority == level]
            theirs = [each for each in wanted if each.priority == level]
            for host in self.hosts:
                numbers = [each.number for each in mine if each.host == host]
                assert numbers == [each.number for each in theirs if each.host == host][: len(numbers)]
            shares, there = Counter(each.host for each in mine), Counter(each.host for each in theirs)
            hungry = [shares[host] for host in there if shares[host] < there[host]]
            assert not hungry or max(shares.values()) <= min(hungry) + 1

    def step(self) -> None:
        lanes = [lane for lane in LANES if self.chance.random() < 0.5]
        without = frozenset(host for host in self.hosts if self.chance.random() < 0.2)
        match self.chance.randrange(6):
            case 0 | 1:  # a few numbers are assigned repeatedly, as after refused pushes
                number = self.chance.randrange(12)
                self.pending.pop(number, None)
                self.update(self.some_place(number))
            case 2:
                self.pending.pop(self.chance.randrange(12), None)
            case 3:  # the same place stops being pending and becomes pending again
                number = self.chance.randrange(12)
                if (place := self.pending.pop(number, None)) is not None:
                    self.update(place)
            case 4:
                self.now += self.chance.random()
            case _:
                limit = self.chance.randrange(5)
                wanted = self.due_in(lanes, without)
                taken = self.backlog.take(lanes, without, limit, self.now)
                self.check(taken, wanted, limit)
                for each in taken:
                    del self.pending[each.number]
        assert self.backlog.has_work(lanes, without, self.now) == bool(self.due_in(lanes, without))
        waiting = [
            place.due for place in self.pending.values() if place.due is not None and place.due > self.now * 1000
        ]
        assert self.backlog.next_due() == (min(waiting) / 1000 if waiting else None)


@pytest.mark.parametrize("hosts", [("",), HOSTS], ids=["one host", "several"])
@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_the_backlog_takes_what_the_model_allows(seed: int, hosts: tuple[str, ...]) -> None:
    model = Model(random.Random(seed), hosts)
    for _ in range(500):
        model.step()


def test_has_work_removes_no_job() -> None:
    pending = {1: place(1, "aaa")}
    backlog = Backlog(pending)
    backlog.add(pending[1])
    assert backlog.has_work([1], NOBODY, 0.0)
    assert not backlog.has_work([1], frozenset({"aaa"}), 0.0)
    assert backlog.take([1], NOBODY, 5, 0.0) == [pending[1]]


@pytest.mark.parametrize("lanes", [1, 3])
def test_claims_of_one_job_each_take_every_host_once_per_round(lanes: int) -> None:
    pending = {n: place(n, f"{n % 5}", n % lanes) for n in range(60)}
    backlog = Backlog(pending)
    for each in pending.values():
        backlog.add(each)
    for _ in range(12):
        turns = []
        for _ in range(5):
            (taken,) = backlog.take(range(lanes), NOBODY, 1, 0.0)
            turns.append(pending.pop(taken.number).host)
        assert sorted(turns) == ["0", "1", "2", "3", "4"]


def test_a_host_whose_jobs_arrive_one_by_one_does_not_delay_the_others() -> None:
    pending = {n: place(n, "big") for n in range(10)}
    backlog = Backlog(pending)
    for each in pending.values():
        backlog.add(each)
    for number in range(100, 120):
        pending[number] = place(number, "chain")
        backlog.add(pending[number])
        for taken in backlog.take([1], NOBODY, 1, 0.0):
            del pending[taken.number]
    assert not [each for each in pending.values() if each.host == "big"]


class Counting(dict[int, JobPath]):
    """Pending jobs, and the number of lookups."""

    looks = 0

    def get(self, number: int, default: object = None) -> JobPath | None:  # type: ignore[override]
        self.looks += 1
        return super().get(number)


def filled(hosts: Mapping[str, int]) -> tuple[Backlog, Counting]:
    names = [host for host, jobs in hosts.items() for _ in range(jobs)]
    pending = Counting({number: place(number, host) for number, host in enumerate(names)})
    backlog = Backlog(pending)
    for each in pending.values():
        backlog.add(each)
    return backlog, pending


def test_an_excluded_host_with_200_000_jobs_is_skipped_in_one_step() -> None:
    backlog, pending = filled({"banned": 200_000, "small": 20})
    assert len(backlog.take([1], frozenset({"banned"}), 10, 0.0)) == 10
    assert not backlog.has_work([1], frozenset({"banned", "small"}), 0.0)
    assert pending.looks < 50


def test_of_20_000_hosts_only_those_whose_turn_it_is_are_read() -> None:
    backlog, pending = filled({f"{number}": 5 for number in range(20_000)})
    closed = frozenset(f"{number}" for number in range(100))
    assert len({each.host for each in backlog.take([1], closed, 100, 0.0)}) == 100
    assert pending.looks < 100 * 5


def test_hosts_without_jobs_use_no_memory() -> None:
    backlog, pending = filled({f"{number}": 1 for number in range(100)})
    for taken in backlog.take([1], NOBODY, 100, 0.0):
        del pending[taken.number]
    assert not backlog.has_work([1], NOBODY, 0.0)
    assert (backlog._turns, dict(backlog._lines)) == ({}, {})
    assert not backlog._lanes[1].levels
