"""Declaring a handler: what it says, what it is called with, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pydantic
import pytest
import structlog

from longshore import handler
from longshore.errors import HandlerFileError, ValidationError
from longshore.handlers.handler import Handler
from longshore.handlers.kit import JustHttp, Kit
from longshore.testing import make_job

if TYPE_CHECKING:
    from longshore import Job


class Filing(pydantic.BaseModel):
    number: int
    state: str = "CA"


def kit_of(job: Job) -> Kit:
    return Kit(log=structlog.get_logger(), tools=JustHttp(), job=job)


def invoke(made: Handler, payload: dict[str, Any]) -> Any:
    job = make_job(payload, kind=made.kind)
    return made.invoke(job, kit_of(job))


def test_a_handler_says_what_was_declared() -> None:
    @handler("page", timeout=30, retries=3)
    async def page(job, kit):  # type: ignore[no-untyped-def]
        """Reads a page."""

    assert (page.kind, page.is_async, page.timeout, page.retries) == ("page", True, timedelta(seconds=30), 3)
    assert page.__doc__ == "Reads a page."
    assert vars(page)["__name__"] == "page"


def test_defaults_are_five_minutes_and_the_jobs_own_limit() -> None:
    @handler("page")
    def page(job: Job) -> None: ...

    assert (page.timeout, page.retries, page.is_async) == (timedelta(minutes=5), None, False)


def test_a_timeout_may_be_a_timedelta() -> None:
    assert handler("page", timeout=timedelta(minutes=2))(lambda job: None).timeout == timedelta(minutes=2)


def test_a_handler_is_still_callable_like_its_function() -> None:
    @handler("sum")
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert add(2) == 3
    assert add(2, b=5) == 7


def test_job_and_kit_are_given_with_nothing_in_between() -> None:
    def page(job: Job, kit: Kit) -> tuple[Job, Kit]:
        return job, kit

    made = handler("page")(page)
    job = make_job({})
    kit = kit_of(job)
    assert made.invoke is page
    assert made.invoke(job, kit) == (job, kit)
    assert made.arguments(job, kit) == {"job": job, "kit": kit}


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda job: [job.id], ["1"]),
        (lambda kit: [kit.job.id], ["1"]),
        (lambda kit, job: [kit.job is job], [True]),
        (lambda: ["nothing"], ["nothing"]),
    ],
)
def test_job_and_kit_are_found_by_name_in_any_order(function: Callable[..., Any], given: list[Any]) -> None:
    assert invoke(handler("some")(function), {}) == given


async def test_an_async_handler_returns_an_awaitable() -> None:
    @handler("page")
    async def page(url: str, depth: int = 1) -> str:
        await asyncio.sleep(0)
        return f"{url} {depth}"

    assert await invoke(page, {"url": "u"}) == "u 1"
    assert await invoke(page, {"url": "u", "depth": "2", "other": None}) == "u 2"


def test_one_parameter_with_a_model_takes_the_whole_payload() -> None:
    @handler("filing")
    def filing(params: Filing, kit: Kit) -> Any:
        return params, kit.job.kind

    assert invoke(filing, {"number": 7}) == (Filing(number=7), "filing")


def test_a_model_beside_other_parameters_takes_the_entry_of_its_name() -> None:
    @handler("filing")
    def filing(filing: Filing, depth: int) -> Any:
        return filing, depth

    assert invoke(filing, {"filing": {"number": 7}, "depth": 2}) == (Filing(number=7), 2)


def test_params_checks_the_payload_also_where_no_parameter_wants_the_model() -> None:
    checked = handler("filing", params=Filing)(lambda job: job.payload)
    assert invoke(checked, {"number": 1, "more": 2}) == {"number": 1, "more": 2}
    with pytest.raises(ValidationError, match="number: missing"):
        invoke(checked, {})


def test_params_gives_the_model_to_the_one_parameter_there_is() -> None:
    assert invoke(handler("filing", params=Filing)(lambda job, it: it.state), {"number": 1}) == "CA"


def test_a_parameter_without_annotation_takes_whatever_is_there() -> None:
    assert invoke(handler("page")(lambda url, tags=(): (url, tags)), {"url": None}) == (None, ())


def test_a_default_is_used_as_it_is_when_the_entry_is_missing() -> None:
    marker = object()
    assert invoke(handler("page")(lambda depth=marker: depth), {}) is marker


def test_annotations_may_name_a_model_local_to_the_test() -> None:
    class Local(pydantic.BaseModel):
        n: int

    @handler("local")
    def local(params: Local) -> int:
        return params.n

    assert invoke(local, {"n": 4}) == 4


def test_every_fault_is_named_at_once_and_never_retried() -> None:
    @handler("page")
    def page(url: str, depth: int, tags: list[int], limit: int = 3) -> None: ...

    with pytest.raises(ValidationError) as caught:
        invoke(page, {"depth": "deep", "tags": [1, "x"]})
    message = str(caught.value)
    assert "'page'" in message
    assert "url: missing" in message
    assert "depth: input should be a valid integer" in message
    assert "'deep'" in message
    assert "tags.1: " in message
    assert "limit" not in message
    assert not caught.value.retryable


def test_faults_of_a_model_are_named_by_their_way() -> None:
    class Inner(pydantic.BaseModel):
        n: int

    class Outer(pydantic.BaseModel):
        inner: Inner
        name: str

    with pytest.raises(ValidationError, match=r"inner\.n: missing; name: missing"):
        invoke(handler("outer", params=Outer)(lambda params: None), {"inner": {}})


def test_a_password_in_a_faulty_url_is_not_repeated() -> None:
    @handler("page")
    def page(url: int) -> None: ...

    with pytest.raises(ValidationError) as caught:
        invoke(page, {"url": "https://me:hunter2@h/"})
    assert "hunter2" not in str(caught.value)


def test_a_long_value_is_not_repeated_whole() -> None:
    @handler("page")
    def page(text: int) -> None: ...

    with pytest.raises(ValidationError) as caught:
        invoke(page, {"text": "x" * 10_000})
    assert len(str(caught.value)) < 400


def test_retries_wait_twice_as_long_each_time_up_to_five_minutes() -> None:
    made = handler("page", backoff=2.0)(lambda job: None)
    for attempt, longest in [(1, 2), (2, 4), (3, 8), (8, 256), (9, 300), (10_000, 300)]:
        waits = [made.retry_in(attempt).total_seconds() for _ in range(50)]
        assert longest * 0.75 <= min(waits)
        assert max(waits) <= longest
        assert len(set(waits)) > 1, "jobs that failed together must not come back together"


def test_without_backoff_a_retry_comes_at_once() -> None:
    assert handler("page", backoff=0)(lambda job: None).retry_in(5) == timedelta(0)


async def _yields(job: Job):  # type: ignore[no-untyped-def]
    yield job


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda: handler(lambda job: None), "not @handler"),  # type: ignore[arg-type]
        (lambda: handler("")(lambda job: None), "kind of job"),
        (lambda: handler("a", timeout=0)(lambda job: None), "timeout=.*above 0"),
        (lambda: handler("a", timeout="5")(lambda job: None), "timeout='5'"),  # type: ignore[arg-type]
        (lambda: handler("a", retries=-1)(lambda job: None), "retries=-1"),
        (lambda: handler("a", retries=1.5)(lambda job: None), "retries=1.5"),  # type: ignore[arg-type]
        (lambda: handler("a", backoff=-1)(lambda job: None), "backoff=-1"),
        (lambda: handler("a", emits=Filing)(lambda job: None), 'emits={"item": Item}'),  # type: ignore[arg-type]
        (lambda: handler("a", emits={"item": dict})(lambda job: None), "pydantic model of each kind"),  # type: ignore[dict-item]
        (lambda: handler("a", keep="cheap")(lambda job: None), "keep='cheap'"),  # type: ignore[arg-type]
        (lambda: handler("a", robots="no")(lambda job: None), "robots='no'"),  # type: ignore[arg-type]
        (lambda: handler("a")(lambda *rest: None), r"\*rest"),
        (lambda: handler("a")(lambda **rest: None), r"\*\*rest"),
        (lambda: handler("a")(_yields), "yields"),
        (lambda: handler("a", params=dict)(lambda job: None).prepare(), "pydantic model"),  # type: ignore[arg-type]
        (lambda: handler("a", params=Filing)(lambda x, y: None).prepare(), "x, y"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declare: Callable[[], object], says: str) -> None:
    with pytest.raises(HandlerFileError, match=says):
        declare()


def test_an_annotation_that_cannot_be_read_is_named() -> None:
    @handler("page")
    def page(url: NoSuchThing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(HandlerFileError, match=r"'page'.*NoSuchThing"):
        page.prepare()


def test_a_type_no_payload_can_hold_is_named() -> None:
    class Socket: ...

    @handler("page")
    def page(link: Socket) -> None: ...

    with pytest.raises(HandlerFileError, match="link: Socket"):
        page.prepare()
