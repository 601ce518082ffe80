"""The parts of the recipe `registers`: readers, limits, PDF files, modes, and the faces for scripts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader
from tests.services.postgres import PostgresServer
from tests.waiting import wait_until

from longshore import LongshoreError, ProcessingError
from longshore.errors import InputFileError, NotFoundError
from longshore.scrape.http.client import Response
from registers import start, url_queue
from registers.check import compare
from registers.orchestrator import ScraperOrchestrator
from registers.readers import argentina, india, malaysia, netherlands, quebec, russia, taiwan
from registers.readers.values import BlockedError, CutOffError, SessionExpiredError, decoded, price, written_day
from registers.replica.limits import LimitOptions, Limits, Verdict
from registers.replica.russia import expired_page, form_page
from registers.replica.site import REGISTERS
from registers.replica.world import BLOCK_PAGE
from registers.scrapers import get_execution_mode, scrapers

BASE = "http://127.0.0.1"
SIZE = 150
Fields = dict[str, Any]
_schemas = count()


def page(register: str, path: str) -> Response:
    sent = REGISTERS[register].page(path, SIZE)
    assert sent is not None, path
    return Response(url=BASE + path, status=sent.status, headers={"Content-Type": sent.content_type}, body=sent.body)


def start_pages(register: str) -> list[Response]:
    return [page(register, path) for path in REGISTERS[register].start(SIZE)]


def in_india() -> Iterator[Fields]:
    for first in start_pages("India"):
        packs: dict[str, Fields] = {}
        seen, following = set[str](), first.url
        while following and following not in seen:
            seen.add(following)
            found, after = india.read_product(page("India", following.removeprefix(BASE)))
            packs |= {fields["pack"]: fields for fields in found}
            following = after or ""
        yield from packs.values()


def in_russia() -> Iterator[Fields]:
    found, pages = russia.read_results(page("Russia", "/search?page=1"))
    yield from found
    for number in range(2, pages + 1):
        yield from russia.read_results(page("Russia", f"/search?page={number}"))[0]


def in_argentina() -> Iterator[Fields]:
    for laboratory in argentina.read_laboratories(page("Argentina", "/laboratorios")):
        for product in argentina.read_laboratory(page("Argentina", laboratory.removeprefix(BASE))):
            yield from argentina.read_product(page("Argentina", product.removeprefix(BASE)))


def in_quebec() -> Iterator[Fields]:
    for url in quebec.read_publications(page("CanadaQuebec", "/publications")):
        yield from quebec.read_list(page("CanadaQuebec", url.removeprefix(BASE)))


READERS: dict[str, Callable[[], Iterator[Fields]]] = {
    "India": in_india,
    "Malaysia": lambda: (each for one in start_pages("Malaysia") for each in malaysia.read_product(one)),
    "Netherlands": lambda: (netherlands.read_pack(one) for one in start_pages("Netherlands") if one.status == 200),
    "Taiwan": lambda: (each for one in start_pages("Taiwan") for each in taiwan.read_drug(one)),
    "Russia": in_russia,
    "Argentina": in_argentina,
    "CanadaQuebec": in_quebec,
}


@pytest.mark.parametrize("register", REGISTERS)
def test_every_field_of_every_layout_and_encoding_is_read(register: str) -> None:
    truth = list(REGISTERS[register].truth(SIZE))
    assert compare(READERS[register](), truth).perfect
    assert len(truth) >= 100
    fields = set().union(*(each.keys() for each in truth))
    missing = {name for name in fields if any(each[name] is None for each in truth)}
    assert len(missing) >= 2, "some fields are missing or malformed"


def test_a_comparison_counts_what_is_missing_invented_and_repeated() -> None:
    true = [{"pack": "1", "price": 1.0}, {"pack": "2", "price": None}, {"pack": "3", "price": 3.0}]
    found = [true[0], true[0], {"pack": "2", "price": 2.0}]
    seen = compare(found, true)
    assert (seen.found, seen.missing, seen.invented, seen.repeated) == (3, 2, 1, 1)
    assert not seen.perfect


@pytest.mark.parametrize(
    ("register", "reader"),
    [("India", india.read_product), ("Russia", russia.read_results), ("CanadaQuebec", quebec.read_list)],
)
def test_a_page_that_is_cut_anywhere_is_asked_for_again(register: str, reader: Callable[[Response], object]) -> None:
    path = {"India": "/product/IN000006", "Russia": "/search?page=1", "CanadaQuebec": "/listes/liste-1.pdf"}[register]
    whole = page(register, path)
    for length in range(0, len(whole.body) - 10, 97):
        with pytest.raises(CutOffError) as cut:
            reader(Response(url=whole.url, body=whole.body[:length]))
        assert cut.value.retryable


def test_a_form_that_is_cut_anywhere_is_asked_for_again() -> None:
    whole = form_page("token")
    assert russia.read_form(Response(url=BASE, body=whole.body), "7").data == {"__state": ["token"], "page": ["7"]}
    for length in range(len(whole.body) - 10):
        with pytest.raises(CutOffError):
            russia.read_form(Response(url=BASE, body=whole.body[:length]), "7")


def test_refusals_with_status_200_are_retried_and_unknown_layouts_are_not() -> None:
    with pytest.raises(BlockedError) as blocked:
        decoded(Response(url=BASE, body=BLOCK_PAGE.encode()), ("utf-8",), "<body>")
    with pytest.raises(SessionExpiredError) as expired:
        russia.read_results(Response(url=BASE, body=expired_page().body))
    assert blocked.value.retryable
    assert expired.value.retryable
    for reader in (india.read_product, malaysia.read_product, netherlands.read_pack, argentina.read_product):
        with pytest.raises(ProcessingError, match="no layout that is known") as unknown:
            reader(Response(url=BASE, body=b"<html><body>All new!</body></html>"))
        assert not unknown.value.retryable


def test_a_file_that_is_no_pdf_fails_for_good() -> None:
    with pytest.raises(ProcessingError, match="no PDF that can be read") as broken:
        quebec.read_list(Response(url=BASE, body=b"no pdf at all %%EOF"))
    assert not broken.value.retryable


def test_the_lists_of_quebec_are_small_files_of_several_pages_and_two_layouts() -> None:
    files = [page("CanadaQuebec", f"/listes/liste-{number}.pdf").body for number in range(1, 5)]
    assert all(len(each) < 20_000 for each in files)
    sheets = [PdfReader(io.BytesIO(each)).pages for each in files]
    assert all(len(each) > 1 for each in sheets[:3])
    heads = {each[0].extract_text().split("\n")[1].split()[0] for each in sheets}
    assert heads == {"DIN", "Marque"}


@pytest.mark.parametrize(
    ("text", "comma", "amount"),
    [
        ("₹ 1,23,456.50", False, 123456.5),
        ("Rs. 12", False, 12.0),
        ("NT$ 9,000.00", False, 9000.0),
        ("€ 1.234,56", True, 1234.56),
        ("1 234,56 $", True, 1234.56),
        ("12,3.4,5", False, None),
        ("12,3.4,5", True, None),
        ("-5", False, None),
        ("n.b.", True, None),
        ("", False, None),
    ],
)
def test_prices_are_read_as_each_country_writes_them(text: str, comma: bool, amount: float | None) -> None:
    assert price(text, comma=comma) == amount


@pytest.mark.parametrize(
    ("text", "day"), [("31.05.2024", "2024-05-31"), ("01/02/24", "2024-02-01"), ("31-02-2024", None), ("—", None)]
)
def test_dates_that_there_are_not_are_missing(text: str, day: str | None) -> None:
    assert written_day(text) == day


@pytest.mark.parametrize("sliding", [False, True])
def test_a_register_may_be_asked_so_often_and_bans_those_who_do_not_heed(sliding: bool) -> None:
    limits = Limits(
        LimitOptions(rate=2, refusal=Verdict.BLOCKED, sliding=sliding, burst=20, ban_after=4, ban_seconds=20)
    )
    assert [limits.judge(100.0) for _ in range(21)] == [Verdict.SERVED] * 20 + [Verdict.BLOCKED]
    assert limits.judge(110.0) is Verdict.SERVED, "the bucket is filled, or the window is over"
    for _ in range(40):
        last = limits.judge(111.0)
    assert last is Verdict.BANNED
    assert limits.judge(130.0) is Verdict.BANNED
    assert limits.judge(131.5) is Verdict.SERVED


@pytest.mark.ledger("D6")
def test_a_scraper_without_a_mode_is_single(capsys: pytest.CaptureFixture[str]) -> None:
    modes = {each.name: get_execution_mode(each.name) for each in scrapers}
    distributed = ("India", "Malaysia", "Netherlands", "Taiwan")
    single = ("Russia", "Argentina", "CanadaQuebec")
    assert modes == dict.fromkeys(distributed, "distributed") | dict.fromkeys(single, "single")
    assert get_execution_mode("Canada Quebec") == "single"
    assert start.main([]) == 0
    assert dict(line.split() for line in capsys.readouterr().out.splitlines()) == modes


def test_an_unknown_scraper_is_named_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(["Indai"]) == 2
    assert "There is no scraper 'Indai'. Did you mean India?" in capsys.readouterr().err
    with pytest.raises(NotFoundError, match="There are: India, Malaysia"):
        get_execution_mode("Mars")


@pytest.fixture(params=["sqlite", "directory", "postgres"])
def queue(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A queue that the faces find in the environment."""
    url = {"sqlite": f"sqlite:///{tmp_path}/queue.db", "directory": f"dir://{tmp_path}/queue"}.get(request.param)
    if url is None:
        server: PostgresServer = request.getfixturevalue("server")
        url = f"{server.url}?schema=faces_{next(_schemas)}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGSHORE_QUEUE", url)
    return url


def urls(number: int) -> list[str]:
    return [f"http://127.0.0.1:1/product/{each}" for each in range(number)]


@pytest.mark.ledger("D1", "D2", "D4", "F2")
def test_urls_are_claimed_in_batches_and_a_claim_that_expired_changes_nothing(queue: str) -> None:
    repeated = [*urls(12), "HTTP://127.0.0.1:1/product/3#again"]
    assert url_queue.enqueue_urls("India", "may", repeated) == {"enqueued": 12, "duplicates": 1}
    assert url_queue.enqueue_urls("India", "may", urls(12)) == {"enqueued": 0, "duplicates": 12}
    assert url_queue.claim_batch("Taiwan", "may", "w") == [], "other scrapers have no part in it"
    first = url_queue.claim_batch("India", "may", "w", 5, lease_seconds=60)
    slow = url_queue.claim_batch("India", "may", "x", lease_seconds=0.1)
    assert (len(first), len(slow)) == (5, 7)
    assert not {each.url for each in first} & {each.url for each in slow}
    assert url_queue.claim_batch("India", "may", "y") == []
    # It is taken back by the first who looks after its lease: `complete_url` does so itself.
    released = 0

    def expired() -> bool:
        nonlocal released
        released += url_queue.release_expired_leases()
        return released == 7

    wait_until(expired)
    assert not url_queue.complete_url(slow[0], {"packs": 1})
    assert url_queue.renew_batch(slow) == []
    assert url_queue.renew_batch(first) == first
    assert all(url_queue.complete_url(each, {"packs": 2}) for each in first)
    assert not url_queue.complete_url(first[0]), "it was settled before"
    again = url_queue.claim_batch("India", "may", "y", 1)
    assert again[0].retry_count == 1, "an expiry counts"
    assert url_queue.complete_url(again[0])
    expected = {"pending": 6, "claimed": 0, "completed": 6, "failed": 0, "remaining": 6}
    assert url_queue.get_queue_stats("India", "may") == expected
    assert ScraperOrchestrator(queue).get_stats("India", "may") == expected


@pytest.mark.ledger("D2")
def test_a_url_is_tried_four_times_and_keeps_its_last_error(queue: str) -> None:
    import longshore

    url_queue.enqueue_urls("India", "may", urls(1))
    for attempt in range(4):
        (claimed,) = url_queue.claim_batch("India", "may", "w")
        assert claimed.retry_count == attempt
        assert url_queue.fail_url(claimed, f"no such page, {attempt}")
    assert url_queue.claim_batch("India", "may", "w") == []
    assert url_queue.get_queue_stats("India", "may")["failed"] == 1
    (failed,) = longshore.jobs("may", state="failed", queue=queue)
    assert failed.failure is not None
    assert failed.failure.message == "no such page, 3"


@pytest.mark.parametrize("queue", ["sqlite", "postgres"], indirect=True)
def test_an_expired_claim_is_refused_although_no_one_has_taken_the_url_since(queue: str) -> None:
    url_queue.enqueue_urls("India", "may", urls(2))
    (held,) = url_queue.claim_batch("India", "may", "x", 1)
    # It is over before the next connection to the queue is open.
    (short,) = url_queue.claim_batch("India", "may", "w", 1, lease_seconds=0.000001)
    assert not url_queue.complete_url(short)
    assert url_queue.complete_url(held)
    assert url_queue.get_queue_stats("India", "may")["completed"] == 1


@pytest.mark.ledger("D1", "D6")
def test_a_start_is_queued_once_and_its_dry_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{url}\n" for url in [*urls(500), *urls(20)]))
    assert start.main(["India", "--urls-file", "urls.txt", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out) == {"status": "dry_run", "enqueued": 500, "duplicates": 20}
    assert [each.name for each in tmp_path.iterdir()] == ["urls.txt"]
    queued = ScraperOrchestrator().start_scraper("India", urls=urls(5))
    assert queued["status"] == "queued"
    assert (queued["enqueued"], queued["duplicates"]) == (5, 0)
    run = queued["run_id"]
    assert queued["worker_command"].endswith(f"-m registers.worker --scraper India --run-id {run} --batch-size 50")
    more = ScraperOrchestrator().start_scraper("India", "urls.txt", run_id=run)
    assert (more["run_id"], more["enqueued"], more["duplicates"]) == (run, 495, 25)
    assert ScraperOrchestrator().get_stats("India", run)["pending"] == 500


def test_a_line_that_is_no_url_is_named_and_nothing_is_enqueued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:1/a\nhtp:/x\n")
    for begin in (ScraperOrchestrator().dry_run, ScraperOrchestrator().start_scraper):
        with pytest.raises(InputFileError, match="line 2"):
            begin("India", "urls.txt")
    with pytest.raises(LongshoreError):
        ScraperOrchestrator().get_stats("India", "any")
