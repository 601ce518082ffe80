"""The outcome of `run_handler` shows what the attempt emitted, logged and requested, and is compared as before."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel

from longshore import AsyncKit, Result, Snooze, SyncKit, handler, new_job
from longshore.testing import Completed, Failed, Snoozed, run_handler

URL = "https://a.org/"


class Item(BaseModel):
    title: str
    price: float = 0.0


@handler("page", emits={"item": Item, "shop": Item}, keep=lambda item, _: item.title != "old")
async def page(url: str, kit: AsyncKit) -> Result:
    for title in (await kit.http.get(url)).json():
        kit.emit({"title": title}, kind="item")
    kit.emit(Item(title="us"), kind="shop")
    kit.log.warning("parsed", pages=1)
    return Result(1, jobs=[new_job("page", {"url": "https://a.org/2"})])


@handler("page")
def plain(url: str, kit: SyncKit) -> None:
    kit.http.get(url)
    kit.emit({"n": 1})
    kit.log.info("seen")


@handler("page")
async def snoozing(kit: AsyncKit) -> Snooze:
    kit.emit({"n": 1})
    return Snooze(5)


def test_records_are_those_that_a_worker_would_store() -> None:
    outcome = run_handler(page, {"url": URL}, http={URL: ["cup", "old"]})
    assert outcome.records == [{"title": "cup", "price": 0.0}, {"title": "us", "price": 0.0}]
    assert outcome.records_of("item") == [{"title": "cup", "price": 0.0}]
    assert outcome.logged == [{"level": "warning", "event": "parsed", "pages": 1}]
    assert outcome.requested == [URL]


def test_a_record_that_does_not_fit_its_model_fails_the_attempt_which_then_has_none() -> None:
    outcome = run_handler(page, {"url": URL}, http={URL: ["cup", 5]})
    assert isinstance(outcome, Failed)
    assert outcome.failure.error_type == "validation"
    assert outcome.records == []
    assert outcome.requested == [URL]


def test_a_plain_handler_has_the_same_traces() -> None:
    outcome = run_handler(plain, {"url": URL}, http={URL: "x"})
    assert (outcome.records, outcome.requested) == ([{"n": 1}], [URL])
    assert outcome.logged == [{"level": "info", "event": "seen"}]


def test_traces_do_not_count_when_outcomes_are_compared() -> None:
    done = run_handler(plain, {"url": URL}, http={URL: "x"})
    assert done == Completed()
    assert Completed() == done
    assert done != Completed(1)
    assert done != Snoozed(timedelta(seconds=5))
    snoozed = run_handler(snoozing)
    assert snoozed == Snoozed(timedelta(seconds=5))
    assert Snoozed(timedelta(seconds=5)) == snoozed
    assert snoozed.records == []
    failed = run_handler(plain, {"url": URL}, http={URL: 404})
    assert isinstance(failed, Failed)
    assert failed == Failed(failed.failure, failed.retry_in, failed.max_attempts)
    assert failed != done


def test_an_outcome_can_be_matched_as_before() -> None:
    match run_handler(page, {"url": URL}, http={URL: []}):
        case Completed(result, jobs):
            assert (result, len(jobs)) == (1, 1)
        case other:
            raise AssertionError(other)
