"""Failure bundles: the first failure of each kind, complete, without secrets, and limited in number."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshore.errors import Failure, InputFileError, ProcessingError
from longshore.job import Job
from longshore.scrape.capture import failure_bundles as bundles_module
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.failure_bundles import FailureBundles, read_bundle
from longshore.scrape.capture.failure_signature import FailureSignature, signature_of
from longshore.scrape.capture.trail import Trail

PLACE = FailureSignature("KeyError", "pages.py", "parse", 12)
FAILURE = Failure("unknown", "'title'", "KeyError", traceback="Traceback …")


def job(number: int = 1, *, run: str = "monday", **payload: Any) -> Job:
    url = f"https://a.org/{number}"
    return Job(id=str(number), run=run, kind="page", key=f"k{number}", payload={"url": url, **payload}, epoch=2)


def trail(*bodies: bytes, **more: Any) -> Trail:
    made = Trail()
    for number, body in enumerate(bodies, 1):
        made.watch(
            Exchange(
                url=f"https://a.org/{number}", status=200, headers={"Content-Type": "text/html"}, body=body, **more
            )
        )
    return made


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir())


# Contents


def test_a_bundle_is_read_back_with_all_that_was_asked_and_answered(tmp_path: Path) -> None:
    failed = trail(b"<p>one</p>", b"\xff\x00 two", identity="http://10.0.0.1:80", request_headers={"Accept": "*/*"})
    failed.screenshot = b"\x89PNG picture"
    bundles = FailureBundles(
        tmp_path, worker="w1", settings={"concurrency": 8, "queue": "postgresql://ann:geheim@db/jobs"}
    )
    path = bundles.keep(job(), FAILURE, PLACE, failed)
    assert path is not None
    bundle, exchanges = read_bundle(path)
    assert exchanges == list(failed.exchanges)
    assert bundle.job == job()
    assert (bundle.failure, bundle.signature, bundle.worker) == (FAILURE, PLACE, "w1")
    assert bundle.settings == {"concurrency": "8", "queue": "postgresql://ann:***@db/jobs"}
    assert bundle.environment["python"]
    assert not bundle.masked
    assert (path / "page-1.html").read_bytes() == b"<p>one</p>"
    assert (path / "screenshot.png").read_bytes() == b"\x89PNG picture"


def test_nothing_secret_is_in_a_bundle(tmp_path: Path) -> None:
    failed = Trail()
    failed.watch(
        Exchange(
            method="POST",
            url="https://ann:geheim@a.org/?token=geheim",
            final_url="https://a.org/?sig=geheim",
            request_headers={"Authorization": "Bearer geheim", "Cookie": "geheim"},
            request_body=b'{"password": "geheim"}',
            status=200,
            headers={"Set-Cookie": "geheim"},
            body=b"page",
            identity="socks5://ann:geheim@10.0.0.1:9050",
        )
    )
    failure = Failure(
        "unknown", "https://ann:geheim@a.org broke", "KeyError", traceback='get("https://a.org/?token=geheim")'
    )
    bundles = FailureBundles(tmp_path, settings={"api_token": "geheim", "proxy": "http://ann:geheim@10.0.0.1:80"})
    path = bundles.keep(job(password="geheim", page="https://a.org/?api_key=geheim"), failure, PLACE, failed)
    assert path is not None
    assert [file.name for file in path.iterdir() if b"geheim" in file.read_bytes()] == []
    bundle, _ = read_bundle(path)
    assert bundle.masked
    assert bundle.job.payload["password"] == "***"


def test_a_bundle_of_an_attempt_that_left_no_trail_says_what_is_known(tmp_path: Path) -> None:
    path = FailureBundles(tmp_path).keep(job(), FAILURE, PLACE)
    assert path is not None
    bundle, exchanges = read_bundle(path)
    assert exchanges == []
    assert bundle.failure == FAILURE


def test_a_bundle_can_be_looked_at_without_longshore(tmp_path: Path) -> None:
    path = FailureBundles(tmp_path).keep(job(), FAILURE, PLACE, trail(b"page"))
    assert path is not None
    assert path.name.startswith("monday-KeyError-parse-")
    whole = json.loads((path / "bundle.json").read_text())
    assert whole["failure"]["message"] == "'title'"
    assert whole["exchanges"][0]["file"] == "page-1.html"


# Limits


def test_a_thousand_failures_of_one_kind_leave_one_bundle(tmp_path: Path) -> None:
    """F5."""
    bundles = FailureBundles(tmp_path)
    places = [bundles.keep(job(number), FAILURE, PLACE, trail(b"page")) for number in range(1000)]
    assert [number for number, place in enumerate(places) if place] == [0]
    assert kept(tmp_path) == [places[0]]
    assert read_bundle(kept(tmp_path)[0])[0].job.id == "0"


def test_as_many_of_a_kind_are_kept_as_are_wanted(tmp_path: Path) -> None:
    bundles = FailureBundles(tmp_path, each=3)
    for number in range(10):
        bundles.keep(job(number), FAILURE, PLACE)
    assert sorted(read_bundle(path)[0].job.id for path in kept(tmp_path)) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "other",
    [
        FailureSignature("ValueError", "pages.py", "parse", 12),
        FailureSignature("KeyError", "other.py", "parse", 12),
        FailureSignature("KeyError", "pages.py", "other", 12),
        FailureSignature("KeyError", "pages.py", "parse", 13),
    ],
)
def test_another_error_or_another_place_is_another_failure(tmp_path: Path, other: FailureSignature) -> None:
    bundles = FailureBundles(tmp_path)
    assert bundles.keep(job(), FAILURE, PLACE)
    assert bundles.keep(job(), FAILURE, other)


def test_every_run_has_bundles_of_its_own(tmp_path: Path) -> None:
    bundles = FailureBundles(tmp_path)
    assert bundles.keep(job(run="monday"), FAILURE, PLACE)
    assert bundles.keep(job(run="tuesday"), FAILURE, PLACE)


def test_another_process_that_fails_in_the_same_way_adds_none(tmp_path: Path) -> None:
    assert FailureBundles(tmp_path).keep(job(1), FAILURE, PLACE)
    assert FailureBundles(tmp_path).keep(job(2), FAILURE, PLACE) is None
    assert len(kept(tmp_path)) == 1


def _fail(folder: Path, number: int) -> None:
    bundles = FailureBundles(folder)
    for attempt in range(20):
        bundles.keep(job(100 * number + attempt), FAILURE, PLACE, trail(b"page" * 1000))


def test_processes_that_fail_at_once_leave_one_bundle_that_is_whole(tmp_path: Path) -> None:
    spawned = multiprocessing.get_context("spawn")
    processes = [spawned.Process(target=_fail, args=(tmp_path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    (path,) = kept(tmp_path)
    assert read_bundle(path)[1][0].body == b"page" * 1000


def test_the_oldest_of_other_runs_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles_module, "MOST", 3)
    places = [FailureSignature("KeyError", "pages.py", "parse", line) for line in range(4)]
    old = [FailureBundles(tmp_path).keep(job(run="old"), FAILURE, place) for place in places[:2]]
    for age, path in enumerate(old):
        assert path is not None
        _set_age(path, 100 - age)
    new = [FailureBundles(tmp_path).keep(job(run="new"), FAILURE, place) for place in places]
    assert all(new[:3])
    assert new[3] is None
    assert kept(tmp_path) == sorted(path for path in new if path)


def _set_age(path: Path, seconds: float) -> None:
    before = path.stat().st_mtime - seconds
    os.utime(path, (before, before))


def test_all_bundles_together_have_a_size_they_do_not_exceed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles_module, "MOST_BYTES", 10_000)
    bundles = FailureBundles(tmp_path)
    for line in range(20):
        bundles.keep(job(), FAILURE, FailureSignature("KeyError", "pages.py", "parse", line), trail(b"x" * 2000))
    assert 1 <= len(kept(tmp_path)) <= 4
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) <= 10_000


def test_what_a_killed_process_left_halfway_is_taken_away_in_time(tmp_path: Path) -> None:
    left, recent = tmp_path / ".old.part", tmp_path / ".new.part"
    for part in (left, recent):
        part.mkdir()
        (part / "page-1.html").write_bytes(b"page")
    _set_age(left, 2 * 3600)
    assert FailureBundles(tmp_path).keep(job(), FAILURE, PLACE)
    assert not left.exists()
    assert recent.exists()


def test_nothing_half_written_is_left_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space"):
            FailureBundles(tmp_path).keep(job(), FAILURE, PLACE, trail(b"page"))
    assert kept(tmp_path) == []
    assert FailureBundles(tmp_path).keep(job(), FAILURE, PLACE, trail(b"page"))


# Reading


@pytest.mark.parametrize("content", [None, "not json", "{}"])
def test_what_is_no_bundle_is_refused_by_its_name(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "bundle.json").write_text(content)
    with pytest.raises(InputFileError, match=f"{tmp_path.name} is no failure bundle"):
        read_bundle(tmp_path)


def test_a_bundle_of_somebody_else_reads_no_file_outside_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("geheim")
    path = FailureBundles(tmp_path / "bundles").keep(job(), FAILURE, PLACE, trail(b"page"))
    assert path is not None
    text = (path / "bundle.json").read_text().replace('"page-1.html"', '"../../secret.txt"')
    (path / "bundle.json").write_text(text)
    with pytest.raises(InputFileError):
        read_bundle(path)


# The signature


def _handler(action: Callable[[], Any]) -> Any:
    return action()


def _signature(action: Callable[[], Any]) -> FailureSignature:
    try:
        _handler(action)
    except Exception as error:  # noqa: BLE001
        return signature_of(Failure.of(error), _handler, error)
    raise AssertionError("it did not fail")


def test_the_place_is_the_innermost_line_of_the_users_own_code() -> None:
    def parse() -> Any:
        return json.loads("no json")

    found = _signature(parse)
    assert (found.error, found.file, found.function) == ("json.decoder.JSONDecodeError", Path(__file__).name, "parse")
    assert found.line == parse.__code__.co_firstlineno + 1


def test_what_longshore_raised_is_placed_where_it_was_called_from() -> None:
    def fetch() -> Any:
        from longshore.scrape.records import Emission

        return Emission().emit("no record")

    assert _signature(fetch).function == "fetch"


def test_a_failure_without_an_exception_is_placed_at_its_handler() -> None:
    found = signature_of(Failure("timeout", "it took too long"), _handler)
    assert (found.error, found.function, found.line) == ("timeout", "_handler", _handler.__code__.co_firstlineno)


def test_a_comprehension_is_known_by_the_function_it_stands_in() -> None:
    def parse() -> Any:
        return [int(part) for part in ("1", "x")]

    assert _signature(parse).function == "parse"


def test_two_failures_of_one_line_have_one_signature() -> None:
    def parse(text: str) -> None:
        raise ProcessingError(f"{text} is wrong")

    assert _signature(lambda: parse("a")).digest("monday") != _signature(lambda: parse("b")).digest("tuesday")
    assert _signature(lambda: parse("a")) == _signature(lambda: parse("b"))
