"""The parts of the recipe `yellowpages`: table, targets, pages, filter, proxies, and the limits of its replica."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from longshore import ProcessingError
from longshore.fleet.partitions.us_states import US_STATES
from yellowpages import assignments, targets
from yellowpages.listing import Listing, keep
from yellowpages.pages import BlockedError, CutOffError, decoded, read_results
from yellowpages.places import Choice, Target, categories, cities
from yellowpages.replica.layouts import BLOCK_PAGE, result_page
from yellowpages.replica.limits import AddressLimits, LimitOptions, Verdict
from yellowpages.replica.world import Business, results
from yellowpages.worker_proxy_pool import NoProxyError, WorkerProxyPool

TABLE = """0 CA MT RI MS ND; 1 TX WY VT WV SD; 2 FL AK NH NM DE; 3 NY ID ME NV HI; 4 PA UT MA NE NJ DC;
5 IL OR CT KS AR; 6 OH OK IA LA WI; 7 GA AZ KY SC MN; 8 NC WA AL CO IN; 9 MI TN MD MO VA"""


@pytest.mark.ledger("B1")
def test_the_table_gives_each_state_to_one_worker(capsys: pytest.CaptureFixture[str]) -> None:
    assert assignments.main([]) == 0
    shown = capsys.readouterr().out
    rows = {line.split()[0]: set(line.replace(",", "").split()[1:-1]) for line in shown.splitlines()[1:11]}
    expected = [row.split() for row in TABLE.replace("\n", " ").split(";")]
    assert rows == {number: set(states) for number, *states in expected}
    assert set().union(*rows.values()) == set(US_STATES)
    assert "51 partitions on 10 workers: 5 each, 1 has 6. Every partition has exactly one worker." in shown


@pytest.mark.ledger("B1")
def test_a_wrong_table_is_refused_with_all_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(assignments.TABLE.read_text().replace('"RI"', '"TX"'))
    assert assignments.main(["--table", str(wrong)]) == 2
    said = capsys.readouterr().err
    assert "TX is listed for workers 0 and 1" in said
    assert "No worker has RI" in said


@pytest.mark.ledger("B2")
@pytest.mark.parametrize("workers", [1, 3, 60])
def test_any_number_of_workers_covers_every_state(workers: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert assignments.main(["--workers", str(workers)]) == 0
    shown = capsys.readouterr().out
    assert all(f"{state}" in shown for state in US_STATES)
    assert "Every partition has exactly one worker." in shown


@pytest.mark.ledger("B14")
def test_the_targets_of_all_states_are_about_three_hundred_thousand() -> None:
    assert len(cities()) >= 1_000
    assert all(city.population > 0 for city in cities())
    chosen = Choice(tuple(US_STATES))
    assert 295_000 < sum(1 for _ in chosen.targets()) < 310_000
    urls = [job.payload["url"] for job in targets.jobs(replace(chosen, categories=1), "http://127.0.0.1")]
    assert len(set(urls)) == len(urls) == len(cities())
    assert len(set(categories())) == len(categories())
    assert {city.state for city in cities()} == set(US_STATES)


@pytest.mark.ledger("B14")
def test_the_targets_of_a_state_are_in_its_partition_and_begin_with_the_largest_city() -> None:
    made = list(targets.jobs(Choice(["TX"], categories=2), "http://127.0.0.1"))
    assert {job.partition for job in made} == {"TX"}
    first = min(made, key=lambda job: job.priority)
    assert (first.payload["city"], first.payload["category"]) == ("Houston", categories()[0])
    assert len(made) == 2 * sum(city.state == "TX" for city in cities())


@pytest.mark.parametrize("states", ["CA,XX", "", "Texas"])
def test_an_unknown_state_is_named(states: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert targets.main(["--states", states]) == 2
    assert "There is no state" in capsys.readouterr().err


def pages_of(target: Target) -> dict[str, dict[str, object]]:
    """What is read from all pages of a search, by the id of the business."""
    found: dict[str, dict[str, object]] = {}
    number = 1
    while (page := result_page(target, number)) is not None:
        read = read_results(decoded("http://127.0.0.1/search", page.body))
        found |= {each["listing_id"]: each for each in read.listings}
        number += 1
    return found


def fields_of(business: Business) -> dict[str, object]:
    fields = asdict(business) | {"categories": list(business.categories)}
    del fields["rejected"]
    return fields


@pytest.mark.ledger("B13")
@pytest.mark.parametrize("state", ["HI", "OR", "DE", "VT"])
def test_every_field_of_every_layout_and_encoding_is_read_and_filtered(state: str, long: bool) -> None:
    seen = Counter[str]()
    for target in Choice([state], None if long else 8, 12).targets():
        world = {each.listing_id: each for each in results(target)}
        found = pages_of(target)
        assert found == {name: fields_of(each) for name, each in world.items()}
        searched = {
            "searched_state": target.city.state,
            "searched_city": target.city.name,
            "searched_category": target.category,
        }
        why = {name: keep(Listing.model_validate({**each, **searched}), "listing") for name, each in found.items()}
        assert why == {name: each.rejected or None for name, each in world.items()}
        seen.update(each.rejected for each in world.values())
    assert len(seen) == 6, "every reason, and none"


def test_a_page_is_whole_or_refused_wherever_it_is_cut() -> None:
    target = next(target for target in Choice(["CA"], 1).targets() if len(results(target)) > 5)
    page = result_page(target, 1)
    assert page is not None
    whole = len(read_results(decoded("http://127.0.0.1/", page.body)).listings)
    end = page.body.index(b"<footer>")
    for length in range(0, end, 37):
        with pytest.raises(CutOffError):
            read_results(decoded("http://127.0.0.1/", page.body[:length]))
    assert len(read_results(decoded("http://127.0.0.1/", page.body[: end + 8])).listings) == whole


def test_a_block_page_and_an_unknown_layout_are_told_apart_from_no_results() -> None:
    with pytest.raises(BlockedError) as blocked:
        read_results(decoded("http://127.0.0.1/", BLOCK_PAGE.encode()))
    assert blocked.value.retryable
    with pytest.raises(ProcessingError, match="no layout that is known") as unknown:
        read_results(decoded("http://127.0.0.1/", b"<main>All new!</main><footer></footer>"))
    assert not unknown.value.retryable


@pytest.fixture
def proxy_file(tmp_path: Path) -> Path:
    path = tmp_path / "proxies.txt"
    path.write_text("".join(f"127.0.0.1:{9000 + number}:ann:secret{number}\n" for number in range(50)))
    return path


@pytest.mark.ledger("B4")
def test_ten_workers_share_fifty_proxies(proxy_file: Path) -> None:
    seen = set[str]()
    for worker in range(10):
        with WorkerProxyPool(worker, proxy_file, log=None) as pool:
            own = {pool.get_proxy() for _ in range(10)}
            assert len(own) == len(pool) == 5
            assert not own & seen
            seen |= own
    assert len(seen) == 50


@pytest.mark.ledger("B4")
def test_a_proxy_is_blacklisted_after_its_failures_in_a_row(proxy_file: Path, tmp_path: Path) -> None:
    log = tmp_path / "proxies.log"
    options = {"worker_count": 50, "blacklist_threshold": 3, "log": log}
    with WorkerProxyPool(7, proxy_file, **options) as pool:  # type: ignore[arg-type]
        for why in ("answered 403", "answered 403", None, "a", "b", "c"):
            proxy = pool.get_proxy("127.0.0.1:80")
            pool.report_success(proxy) if why is None else pool.report_failure(proxy, why)
        (counted,) = pool.stats().values()
        assert counted == {"requests": 6, "succeeded": 1, "failed": 5, "blacklisted": True}
        with pytest.raises(NoProxyError) as none:
            pool.get_proxy("127.0.0.1:80")
        assert 3500 < none.value.retry_in.total_seconds() <= 3600
        assert pool.get_proxy("127.0.0.2:80") == proxy, "at another host it serves"
        with pytest.raises(ValueError, match="reported already"):
            pool.report_success("http://127.0.0.1:1")
    assert "3 failures in a row, the last: c" in log.read_text()
    assert "secret7" not in log.read_text()


def test_a_pool_serves_many_threads(proxy_file: Path) -> None:
    with WorkerProxyPool(0, proxy_file, strategy="least_used", log=None) as pool:

        def use() -> None:
            for _ in range(20):
                pool.report_success(pool.get_proxy())

        threads = [threading.Thread(target=use) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert [each["succeeded"] for each in pool.stats().values()] == [16] * 5


@pytest.mark.parametrize(
    ("number", "refusal"), [(3, Verdict.TOO_MANY), (4, Verdict.TOO_MANY_SILENT), (5, Verdict.BLOCKED)]
)
def test_an_address_of_the_replica_may_ask_so_often_and_is_banned_if_it_does_not_heed(
    number: int, refusal: Verdict
) -> None:
    limits = AddressLimits(LimitOptions(rate=2, burst=5, window=10, ban_after=4, ban_seconds=20))
    allowed = 5 if number == 3 else 20
    assert [limits.judge(number, 100.0) for _ in range(allowed + 1)] == [Verdict.SERVED] * allowed + [refusal]
    assert limits.judge(number, 110.0) is Verdict.SERVED, "the bucket is filled, or the window is over"
    assert limits.judge(number + 1, 100.0) is Verdict.SERVED, "others are not concerned"
    for _ in range(40):
        last = limits.judge(number, 111.0)
    assert last is Verdict.BANNED
    assert limits.judge(number, 130.0) is Verdict.BANNED
    assert limits.judge(number, 131.5) is Verdict.SERVED
