"""The page store: each response is stored once, completely, and found again."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest

from longshore.errors import InputFileError
from longshore.job import CameFrom, Job
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.page_store import KEPT_ATTEMPTS, PageStore
from longshore.scrape.capture.trail import MOST_BYTES, MOST_EXCHANGES, Trail
from longshore.scrape.http.offline import Answers, NotKeptError, OfflineHttp, OfflineSyncHttp
from longshore.scrape.http.response import StatusError

URL = "https://a.org/list?page=1"


def job(epoch: int = 1, key: str = "k") -> Job:
    return Job(id="1", run="monday", kind="page", key=key, payload={}, epoch=epoch)


def answered(body: bytes = b"page", url: str = URL, *, status: int | None = 200, **more: object) -> Exchange:
    return Exchange(url=url, final_url=url, status=status, body=body, headers={"Content-Type": "text/html"}, **more)  # type: ignore[arg-type]


def keep(store: PageStore, claimed: Job, *exchanges: Exchange) -> None:
    keeper = store.attempt(claimed)
    for exchange in exchanges:
        keeper.add(exchange)
    keeper.close()


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    return PageStore(tmp_path / "pages")


# Keeping


def test_a_page_comes_back_as_it_was_with_where_it_came_from(store: PageStore) -> None:
    page = Exchange(
        url=URL,
        final_url="https://a.org/list/1",
        status=200,
        headers={"Content-Type": "text/html"},
        body=bytes(range(256)) * 100,
        at=1_700_000_000.0,
        seconds=0.5,
        identity="http://10.0.0.1:80",
    )
    keep(store, job(epoch=3), page)
    assert store.exchanges(job()) == [page]
    known = store.pages(job())
    assert known is not None
    assert (known.run, known.kind, known.key, known.attempts[0].epoch) == ("monday", "page", "k", 3)


def test_the_same_page_is_kept_once_however_many_jobs_had_it(store: PageStore, tmp_path: Path) -> None:
    for number in range(20):
        keep(store, job(key=f"k{number}"), answered(b"the same" * 1000))
    contents = [path for path in (tmp_path / "pages" / "content").rglob("*") if path.is_file()]
    assert len(contents) == 1
    assert contents[0].stat().st_size < 1000
    assert all(store.exchanges(job(key=f"k{number}")) for number in range(20))


def test_folders_stay_small_however_many_pages_there_are(store: PageStore, tmp_path: Path) -> None:
    for number in range(600):
        keep(store, job(key=f"k{number}"), answered(str(number).encode()))
    assert len(list((tmp_path / "pages" / "content").iterdir())) <= 256
    assert len(list((tmp_path / "pages" / "jobs").iterdir())) <= 256


def test_nothing_half_written_is_left(store: PageStore, tmp_path: Path) -> None:
    keep(store, job(), answered(b"a"), answered(b"b", "https://a.org/b"))
    names = [path.name for path in (tmp_path / "pages").rglob("*") if path.is_file()]
    assert len(names) == 3
    assert not [name for name in names if name.endswith(".part")]


def test_an_attempt_without_an_answer_leaves_nothing(store: PageStore, tmp_path: Path) -> None:
    keep(store, job(), answered(b"", status=None, error="refused"))
    assert not (tmp_path / "pages").exists()
    assert store.exchanges(job()) == []


def test_secrets_are_not_kept_and_the_page_is_found_all_the_same(store: PageStore, tmp_path: Path) -> None:
    url = "https://a.org/?token=geheim&page=1"
    page = Exchange(
        method="POST",
        url=url,
        status=200,
        body=b"page",
        headers={"Set-Cookie": "sid=geheim"},
        request_headers={"Authorization": "geheim"},
        request_body=b"password=geheim&q=1",
    )
    keep(store, job(), page)
    assert not [path for path in (tmp_path / "pages" / "jobs").rglob("*.json") if b"geheim" in path.read_bytes()]
    (kept,) = store.exchanges(job())
    assert b"geheim" not in kept.request_body
    http = OfflineSyncHttp(Answers([kept], "job 1"))
    assert http.post(url, data={"password": "geheim", "q": "1"}).text == "page"


def test_a_damaged_page_counts_as_not_kept_and_is_kept_anew(store: PageStore, tmp_path: Path) -> None:
    keep(store, job(), answered(b"page"))
    (content,) = (path for path in (tmp_path / "pages" / "content").rglob("*") if path.is_file())
    content.write_bytes(content.read_bytes()[:-3])
    assert store.exchanges(job()) == []
    keep(store, job(), answered(b"page"))
    assert [each.body for each in store.exchanges(job())] == [b"page"]


def test_a_page_that_claims_a_size_beyond_all_memory_counts_as_not_kept(store: PageStore, tmp_path: Path) -> None:
    keep(store, job(), answered(b"page"))
    (content,) = (path for path in (tmp_path / "pages" / "content").rglob("*") if path.is_file())
    # The head of a frame: its magic number, the flag for an 8-byte size, and the size.
    content.write_bytes(b"\x28\xb5\x2f\xfd\xe4" + (1 << 60).to_bytes(8, "little") + content.read_bytes()[6:])
    assert store.exchanges(job()) == []


def test_a_page_left_empty_by_a_machine_without_power_is_kept_anew(store: PageStore, tmp_path: Path) -> None:
    keep(store, job(), answered(b"page"))
    (content,) = (path for path in (tmp_path / "pages" / "content").rglob("*") if path.is_file())
    content.write_bytes(b"")
    keep(store, job(2), answered(b"page"))
    assert [each.body for each in store.exchanges(job())] == [b"page"]


def test_what_a_job_was_answered_is_known_anew_where_it_was_damaged(store: PageStore, tmp_path: Path) -> None:
    keep(store, job(), answered(b"page"))
    (index,) = (path for path in (tmp_path / "pages" / "jobs").rglob("*") if path.is_file())
    index.write_bytes(b"")
    with pytest.raises(InputFileError, match=f"{index.name}, the page list of a job, is damaged"):
        store.exchanges(job())
    keep(store, job(2), answered(b"new page"))
    assert [each.body for each in store.exchanges(job())] == [b"new page"]


def test_a_disk_that_is_full_is_said_at_the_end_and_leaves_nothing_half_written(
    store: PageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        write(path, content[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    keeper = store.attempt(job())
    keeper.add(answered(b"first"))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        keeper.add(answered(b"second", URL + "&more"))
    with pytest.raises(OSError, match="No space left"):
        keeper.close()
    assert [each.body for each in store.exchanges(job())] == [b"first"]
    assert not list((tmp_path / "pages").rglob("*.part"))


def test_only_the_latest_attempts_of_a_job_are_known(store: PageStore) -> None:
    for epoch in range(1, KEPT_ATTEMPTS + 4):
        keep(store, job(epoch), answered(str(epoch).encode()))
    known = store.pages(job())
    assert known is not None
    assert [attempt.epoch for attempt in known.attempts] == list(range(4, KEPT_ATTEMPTS + 4))


# The choice among several responses


def test_the_latest_good_answer_is_given_again(store: PageStore) -> None:
    keep(store, job(1), answered(b"old"))
    keep(store, job(2), answered(b"new"))
    keep(store, job(3), answered(b"gone wrong", status=503))
    assert [each.body for each in store.exchanges(job())] == [b"new"]


def test_where_there_is_no_good_answer_the_latest_is_given_again(store: PageStore) -> None:
    keep(store, job(1), answered(b"first", status=503))
    keep(store, job(2), answered(b"second", status=404))
    assert [each.status for each in store.exchanges(job())] == [404]


def test_pages_of_several_attempts_complete_one_another(store: PageStore) -> None:
    keep(store, job(1), answered(b"one"), answered(b"two", "https://a.org/2"))
    keep(store, job(2), answered(b"one again"))
    assert sorted(each.body for each in store.exchanges(job())) == [b"one again", b"two"]


# Offline


async def test_a_page_is_found_by_any_spelling_of_its_url() -> None:
    http = OfflineHttp(Answers([answered(url="https://a.org/x?b=2&a=1")], "job 1"))
    assert (await http.get("HTTPS://A.org:443/x?a=1&b=2&utm_source=mail#top")).text == "page"
    assert (await http.get("https://a.org/x", params={"a": 1, "b": 2})).text == "page"


def test_everything_else_is_refused_by_an_error_that_says_so() -> None:
    http = OfflineSyncHttp(Answers([answered()], "job 7"))
    with pytest.raises(NotKeptError, match=r"GET https://a.org/other is not among the pages kept of job 7") as refused:
        http.get("https://a.org/other")
    assert "nothing is fetched here. Kept are: https://a.org/list?page=1." in str(refused.value)
    assert not refused.value.retryable
    with pytest.raises(NotKeptError):
        http.post(URL)


def test_an_error_of_the_server_is_one_again() -> None:
    http = OfflineSyncHttp(Answers([answered(status=404)], "job 1"))
    with pytest.raises(StatusError, match="404 Not Found"):
        http.get(URL)
    assert http.get(URL, check=False).status == 404


def test_the_same_request_gets_its_answers_in_their_order() -> None:
    http = OfflineSyncHttp(Answers([answered(b"1"), answered(b"2"), answered(b"3")], "job 1"))
    assert [http.get(URL).text for _ in range(5)] == ["1", "2", "3", "3", "3"]


def test_what_the_kit_had_tried_again_by_itself_is_passed_over() -> None:
    exchanges = [answered(status=None, error="reset"), answered(b"busy", status=503), answered(b"page")]
    assert OfflineSyncHttp(Answers(exchanges, "job 1")).get(URL).text == "page"


def test_requests_that_differ_in_what_is_sent_get_different_answers() -> None:
    sent = [(b'{"page":1}', b"one"), (b'{"page":2}', b"two")]
    exchanges = [answered(body, method="POST", request_body=each) for each, body in sent]
    http = OfflineSyncHttp(Answers(exchanges, "job 1"))
    assert [http.post(URL, json={"page": page}).text for page in (2, 1, 2)] == ["two", "one", "two"]


def test_headers_are_found_in_any_case() -> None:
    response = OfflineSyncHttp(Answers([answered()], "job 1")).get(URL)
    assert response.headers["content-type"] == response.headers.get("CONTENT-TYPE") == "text/html"


# The trail


def test_a_trail_holds_the_latest_of_many_exchanges() -> None:
    trail = Trail()
    for number in range(MOST_EXCHANGES + 5):
        trail.watch(answered(str(number).encode()))
    assert len(trail.exchanges) == MOST_EXCHANGES
    assert trail.exchanges[-1].body == str(MOST_EXCHANGES + 4).encode()
    assert trail.dropped == 5


def test_a_trail_holds_no_more_than_it_may_but_always_the_last_page() -> None:
    trail = Trail()
    for _ in range(3):
        trail.watch(answered(b"x" * (MOST_BYTES // 2)))
    assert len(trail.exchanges) == 2
    trail.watch(answered(b"y" * (MOST_BYTES + 1)))
    assert [each.body[:1] for each in trail.exchanges] == [b"y"]
    assert trail.dropped == 3


def test_a_trail_passes_every_page_on_to_the_store(store: PageStore) -> None:
    trail = Trail(store.attempt(job()))
    for number in range(MOST_EXCHANGES + 5):
        trail.watch(answered(str(number).encode(), f"https://a.org/{number}"))
    trail.close()
    assert len(store.exchanges(job())) == MOST_EXCHANGES + 5


def bodies(store: PageStore, asked: Job) -> list[bytes]:
    return [exchange.body for exchange in store.exchanges(asked)]


def test_a_job_that_was_submitted_again_has_no_page_of_its_former_life(store: PageStore) -> None:
    former = msgspec.structs.replace(job(epoch=3), queue="q", id="1")
    again = msgspec.structs.replace(job(epoch=1), queue="q", id="2")
    keep(store, former, answered(b"former"))
    assert bodies(store, again) == []
    keep(store, again, answered(b"again"))
    assert bodies(store, again) == [b"again"]


def test_a_copy_has_the_pages_from_before_it_and_each_queue_its_own_from_then_on(store: PageStore) -> None:
    source = msgspec.structs.replace(job(epoch=1), queue="source", id="1")
    keep(store, source, answered(b"before"))
    trial = msgspec.structs.replace(source, queue="trial", id="7", came_from=(CameFrom("source", "1", 1, 1),))
    assert bodies(store, trial) == [b"before"]
    keep(store, msgspec.structs.replace(trial, epoch=2), answered(b"trial"))
    assert bodies(store, source) == [b"before"]
    keep(store, msgspec.structs.replace(source, epoch=2), answered(b"source"))
    assert bodies(store, trial) == [b"trial"]
    assert bodies(store, source) == [b"source"]


def test_many_other_jobs_of_the_same_name_take_no_page_of_this_one(store: PageStore) -> None:
    first = msgspec.structs.replace(job(epoch=1), queue="first", id="1")
    keep(store, first, answered(b"first"))
    for number in range(30):
        keep(store, msgspec.structs.replace(first, queue=f"q{number}"), answered(b"other"))
        keep(store, first, answered(b"first"))
    assert bodies(store, first) == [b"first"]
    pages = store.pages(first)
    assert pages is not None
    assert len(pages.attempts) <= 20
