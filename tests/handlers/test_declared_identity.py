"""A handler declares what makes its jobs different, and its follow-on jobs are known by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longshore import Result, Worker, handler, new_job
from longshore.errors import HandlerFileError
from longshore.handlers.class_handler import class_handlers
from longshore.handlers.handler import Handler
from longshore.handlers.load import load_handlers
from longshore.handlers.result import outcome_of
from longshore.job import Job, NewJob, derived_key
from longshore.outcome import Completed, Failed
from longshore.url import url_key

SEARCH = "https://shop.example/search"
FILE = """
from longshore import Worker, handler

@handler("search", identity=("url", "page"))
async def search(job, kit): ...

@handler("item")
def item(job, kit): ...

class Shops(Worker):
    kinds = ("shop", "branch")
    identity = ("number",)
    def process_task(self, task): ...
"""


def made(by: Handler, *found: NewJob) -> tuple[NewJob, ...]:
    """The follow-on jobs of a job whose handler returns these."""
    job = Job(id="1", run="r", kind=by.kind, key="k", payload={})
    outcome = outcome_of(by, job, Result(None, found))
    assert isinstance(outcome, Completed), outcome
    return outcome.jobs


@pytest.fixture
def handlers(tmp_path: Path) -> dict[str, Handler]:
    (tmp_path / "shop.py").write_text(FILE)
    return load_handlers(tmp_path / "shop.py")


def test_result_pages_that_share_a_url_are_different_jobs(handlers: dict[str, Handler]) -> None:
    """A4: one of five result pages was left, with a green tick."""
    pages = [new_job("search", {"url": SEARCH, "page": page, "found_on": "form"}) for page in range(1, 6)]
    found = made(handlers["search"], *pages)
    assert len({job.key for job in found}) == 5
    assert found[0].key == derived_key({"url": SEARCH, "page": 1}, ("url", "page"))
    assert not any(job.default_key for job in found)


def test_every_handler_of_a_file_knows_the_identities_of_the_others(handlers: dict[str, Handler]) -> None:
    for by in handlers.values():
        search, shop, item = made(
            by,
            new_job("search", {"url": SEARCH, "page": 2}),
            new_job("shop", {"number": 7, "seen": 1}),
            new_job("item", {"url": SEARCH, "page": 2}),
        )
        assert search.key == derived_key(search.payload, ("url", "page"))
        assert shop.key == derived_key({"number": 7}, ("number",))
        assert (item.key, item.default_key) == (url_key(SEARCH), True)


def test_a_key_or_an_identity_of_the_job_itself_is_kept(handlers: dict[str, Handler]) -> None:
    keyed, own = made(
        handlers["item"],
        new_job("search", {"url": SEARCH, "page": 2}, key="mine"),
        new_job("search", {"url": SEARCH, "page": 2}, identity=("url",)),
    )
    assert (keyed.key, own.key) == ("mine", url_key(SEARCH))


def test_a_worker_class_knows_its_own_identity_without_a_file() -> None:
    class Shops(Worker):
        kinds = ("shop", "branch")
        identity = ("number",)

        def process_task(self, task: Any) -> None: ...

    by = class_handlers(Shops)["shop"]
    assert made(by, new_job("branch", {"number": 7, "seen": 1}))[0].key == derived_key({"number": 7}, ("number",))


def test_a_follow_on_job_without_the_declared_fields_fails_with_their_names(handlers: dict[str, Handler]) -> None:
    job = Job(id="1", run="r", kind="item", key="k", payload={})
    outcome = outcome_of(handlers["item"], job, Result(None, [new_job("shop", {"name": "x"})]))
    assert isinstance(outcome, Failed)
    assert "A follow-on 'shop': A job has none of the fields that make it different (number)" in outcome.failure.message
    assert not outcome.failure.retryable


@pytest.mark.parametrize("wrong", ["url", (), ("",), (1,)])
def test_an_identity_that_names_no_fields_is_refused_with_the_handler(wrong: Any) -> None:
    with pytest.raises(HandlerFileError, match=r"The handler of 'search' has identity=.*payload field"):
        handler("search", identity=wrong)(lambda job: None)
