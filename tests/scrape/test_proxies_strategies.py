"""The choice of the next proxy, and the share of a worker."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from longshore.scrape.proxies.strategies import ProxyChooser, Strategy, chooser, share

NAMES = [f"http://10.0.0.{n}:80" for n in range(5)]
ALL = tuple(range(5))


def made(strategy: Strategy, seed: int = 1) -> ProxyChooser:
    return chooser(strategy, NAMES, random.Random(seed))


def test_round_robin_goes_around_and_passes_over_who_rests() -> None:
    robin = made(Strategy.ROUND_ROBIN)
    first = robin.choose(ALL, "a.org", "")
    assert [robin.choose(ALL, "a.org", "") for _ in range(9)] == [(first + n) % 5 for n in range(1, 10)]
    assert {robin.choose((1, 3), "a.org", "") for _ in range(4)} == {1, 3}


def test_round_robin_gives_each_of_two_hosts_asked_in_turn_all_of_the_proxies() -> None:
    names = NAMES[:4]
    robin = chooser(Strategy.ROUND_ROBIN, names, random.Random(1))
    seen: dict[str, set[int]] = {"a.org": set(), "b.org": set()}
    for _ in range(4):
        for host, proxies in seen.items():
            proxies.add(robin.choose(range(4), host, ""))
    assert seen == {"a.org": {0, 1, 2, 3}, "b.org": {0, 1, 2, 3}}


@pytest.mark.parametrize("strategy", [Strategy.ROUND_ROBIN, Strategy.LEAST_USED])
def test_hosts_asked_once_each_are_spread_over_all(strategy: Strategy) -> None:
    chosen = made(strategy)
    counts = Counter(chosen.choose(ALL, f"{n}.org", "") for n in range(100))
    assert set(counts.values()) == {20}


def test_many_processes_begin_at_different_places() -> None:
    assert {made(Strategy.ROUND_ROBIN, seed).choose(ALL, "a.org", "") for seed in range(50)} == set(ALL)


def test_random_reaches_all_and_only_those_that_are_open() -> None:
    chosen = made(Strategy.RANDOM)
    assert {chosen.choose((0, 2, 4), "a.org", "") for _ in range(100)} == {0, 2, 4}


def test_least_used_evens_out_for_each_host() -> None:
    least = made(Strategy.LEAST_USED)
    for host in ("a.org", "b.org"):
        assert set(Counter(least.choose(ALL, host, "") for _ in range(50)).values()) == {10}


def test_least_used_does_not_fall_upon_one_that_has_rested() -> None:
    least = made(Strategy.LEAST_USED)
    for _ in range(400):
        least.choose((0, 1, 2, 3), "a.org", "")
    after = Counter(least.choose(ALL, "a.org", "") for _ in range(50))
    assert after[4] <= 11


def test_sticky_keeps_a_host_with_its_proxy_and_spreads_hosts() -> None:
    sticky = made(Strategy.STICKY)
    first = {f"{n}.org": sticky.choose(ALL, f"{n}.org", "") for n in range(200)}
    assert all(sticky.choose(ALL, host, "") == proxy for host, proxy in first.items())
    assert min(Counter(first.values()).values()) > 10
    assert len(set(first.values())) == 5


def test_sticky_by_session_ignores_the_host() -> None:
    sticky = made(Strategy.STICKY)
    for session in map(str, range(20)):
        assert len({sticky.choose(ALL, host, session) for host in ("a.org", "b.org", "c.org")}) == 1
    assert len({sticky.choose(ALL, "a.org", str(n)) for n in range(100)}) == 5


def test_sticky_moves_only_those_whose_proxy_rests_and_brings_them_back() -> None:
    sticky = made(Strategy.STICKY)
    hosts = [f"{n}.org" for n in range(100)]
    first = {host: sticky.choose(ALL, host, "") for host in hosts}
    without = {host: sticky.choose((0, 1, 3, 4), host, "") for host in hosts}
    assert {host for host in hosts if first[host] != without[host]} == {host for host in hosts if first[host] == 2}
    assert {host: sticky.choose(ALL, host, "") for host in hosts} == first


def test_sticky_is_the_same_in_every_process() -> None:
    assert made(Strategy.STICKY, 1).choose(ALL, "a.org", "") == made(Strategy.STICKY, 2).choose(ALL, "a.org", "")


def test_what_is_remembered_of_hosts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.scrape.proxies.strategies.REMEMBERED", 10)
    robin = made(Strategy.ROUND_ROBIN)
    for n in range(100):
        robin.choose(ALL, f"{n}.org", "")
    assert len(robin._by_host._values) == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [1, 3, 7, 50])
def test_every_proxy_is_the_share_of_one_worker(workers: int) -> None:
    shares = [share(range(50), worker, workers) for worker in range(workers)]
    assert sorted(proxy for each in shares for proxy in each) == list(range(50))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_where_there_are_more_workers_than_proxies_each_has_one() -> None:
    assert [share("abc", worker, 5) for worker in range(5)] == [["a"], ["b"], ["c"], ["a"], ["b"]]


def test_a_worker_that_is_not_among_them_has_no_share() -> None:
    with pytest.raises(ValueError, match="numbered 0 to 2"):
        share("abc", 3, 3)
