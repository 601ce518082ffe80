"""What can be stored: JSON that can be read back, and values within bounds. The rest is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import Failure, UsageError
from longshore.extensions.transfer import Carried
from longshore.job import Attempt, Job, JobName, NewJob, State, new_job, number_of, payload_key
from longshore.lease import Lease, Want, WorkerId, lease_seconds
from longshore.outcome import Completed, Failed, Settlement, Snoozed
from longshore.queue import Selection, page_start
from longshore.stored import BIGGEST, DEEPEST, LATEST, LONGEST, MOST, encode

NAN, INFINITE = float("nan"), float("inf")
HALF = "\ud800"
SECOND = timedelta(seconds=1)
WORKER = WorkerId("anna", "anna/1")
BROKEN = Failure("processing", "it broke")

texts = st.text(st.sampled_from('[]{}"\\ab\n\u00e4\u2028'), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def within(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = {'"[': value, "beside": ["]"]} if level % 3 else [value, "\\"]
    return value


@given(values)
def test_what_json_can_say_is_read_back_as_it_was(value: Any) -> None:
    assert msgspec.json.decode(encode(value)) == value


@given(values, st.sampled_from([-1, 0, 1, 2]))
def test_the_bound_of_depth_is_exact_whatever_the_texts_hold(value: Any, above: int) -> None:
    deep = within(value, DEEPEST + above - depth_of(value))
    assert depth_of(deep) == DEEPEST + above
    for given_as in (deep, msgspec.Raw(msgspec.json.encode(deep)), {"in": deep}["in"]):
        if above > 0:
            with pytest.raises(UsageError, match=f"more than {DEEPEST} deep"):
                encode(given_as)
        else:
            assert msgspec.json.decode(encode(given_as)) == deep


def test_a_wide_value_is_not_a_deep_one() -> None:
    wide = [{"n": [n], "text": "[[[{" * 50} for n in range(5 * DEEPEST)]
    assert msgspec.json.decode(encode(wide)) == wide


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UsageError, match="deep"):
        encode(endless)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "object"),
        (HALF, "lone surrogate"),
        ({HALF: 1}, "lone surrogate"),
        ([10**5000], "digits"),
        (msgspec.Raw(b""), "truncated"),
        (msgspec.Raw(b"1 2"), "trailing"),
        (msgspec.Raw(b'"\xff"'), "utf-8"),
        (msgspec.Raw(b"1e999"), "out of range"),
        (msgspec.Raw(b'"\\ud800 and more"'), "surrogate"),
        ({"part": msgspec.Raw(b"<html>")}, "malformed"),
        ({"parts": ["one", msgspec.Raw(b"<html>")]}, "malformed"),
        ({"part": msgspec.Raw(b'"\xff"')}, "utf-8"),
    ],
)
def test_what_could_not_be_read_back_is_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=f"The thing cannot be stored: .*{reason}"):
        encode(value, "The thing")


def made(**fields: Any) -> NewJob:
    return NewJob(**{"run": "r", "kind": "page", "key": "a", "payload": {}} | fields)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("priority", [0, BIGGEST, -BIGGEST], [BIGGEST + 1, -BIGGEST - 1, 10**220, 10**5000, 1.5, NAN, True, "1", None]),
        ("max_attempts", [1, BIGGEST], [0, -1, BIGGEST + 1, 2.0, NAN, True, None]),
        ("not_before", [None, 0, 0.0, 1.5, LATEST], [-1.0, LATEST + 1, 1e300, NAN, INFINITE, -INFINITE, 10**400, "1"]),
        ("payload", [{}], [[1], None, "a", msgspec.Raw(b"{}")]),
        *((name, ["", "ä\0☕"], [HALF, None, 1]) for name in ("run", "kind", "key", "partition", "host")),
    ],
)
def test_a_job_is_made_within_bounds(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(made(**{field: value}), field) == value
    for value in bad:
        with pytest.raises(UsageError, match=field):
            made(**{field: value})
        with pytest.raises(UsageError, match=field):
            msgspec.structs.replace(made(), **{field: value})


@pytest.mark.parametrize(
    "payload", [{"a": HALF}, {"url": HALF}, {"url": f"https://x.test/{HALF}"}, {"a": object()}, []]
)
def test_a_job_whose_payload_could_not_be_stored_is_not_made(payload: Any) -> None:
    with pytest.raises(UsageError):
        new_job("page", payload)


def test_a_payload_that_could_not_be_stored_has_no_key() -> None:
    with pytest.raises(UsageError, match="payload"):
        payload_key({"a": object()})


def carried(history: tuple[Attempt, ...] = (), **fields: Any) -> Carried:
    theirs: dict[str, Any] = {"id": "", "run": "r", "kind": "page", "key": "a", "payload": {}}
    return Carried(Job(**theirs | fields), history)


def attempt(**fields: Any) -> Attempt:
    past: dict[str, Any] = {"epoch": 1, "worker": "w", "ended_at": 1.0, "failure": BROKEN}
    return Attempt(**past | fields)


INSTANTS = ([0.0, LATEST], [-1.0, LATEST + 1, 1e300, NAN, INFINITE])
COUNTS = ([0, MOST], [-1, MOST + 1, 10**300, 1.5, True])


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        *((name, *COUNTS) for name in ("epoch", "attempts", "depth")),
        *((name, *INSTANTS) for name in ("submitted_at", "settled_at", "not_before")),
        ("priority", [BIGGEST], [BIGGEST + 1, 1.5]),
        ("max_attempts", [BIGGEST], [0, BIGGEST + 1]),
        ("seconds", [None, 0.0, 1e308], [NAN, INFINITE, 10**400, "1"]),
        ("worker", [None, "w"], [HALF]),
        ("parent", [None, JobName("a", "b")], [JobName(HALF, "b"), JobName("a", HALF)]),
        ("payload", [{}], [[]]),
        ("run", [""], [HALF]),
    ],
)
def test_a_job_is_carried_within_bounds(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(carried(**{field: value}).job, field) == value
    for value in bad:
        with pytest.raises(UsageError, match="/page/a' cannot be taken over"):
            carried(**{field: value})


@pytest.mark.parametrize("epochs", [(2, 1), (1, 1), (0,), (4,), (1, 4)])
def test_a_history_that_no_queue_can_have_written_is_refused_by_name(epochs: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"r/page/a.*epoch"):
        carried(tuple(attempt(epoch=n) for n in epochs), epoch=3)
    assert carried((attempt(epoch=1), attempt(epoch=3)), epoch=3)


@pytest.mark.parametrize("unfit", [{"ended_at": NAN}, {"ended_at": 1e300}, {"seconds": NAN}, {"worker": HALF}])
def test_an_attempt_out_of_bounds_is_not_carried(unfit: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="of an attempt"):
        carried((attempt(**unfit),), epoch=1)


LEASE = Lease(Job(id="1", run="r", kind="page", key="a", payload={}, state=State.CLAIMED), WORKER, 1.0)
TOO_LONG = LONGEST + SECOND


@pytest.mark.parametrize(
    "make",
    [
        lambda: Snoozed(-SECOND),
        lambda: Snoozed(TOO_LONG),
        lambda: Snoozed(timedelta.max),
        lambda: Failed(BROKEN, retry_in=-SECOND),
        lambda: Failed(BROKEN, retry_in=TOO_LONG),
        lambda: Failed(BROKEN, max_attempts=0),
        lambda: Failed(BROKEN, max_attempts=BIGGEST + 1),
        lambda: Settlement(LEASE, Completed(), NAN),
        lambda: Settlement(LEASE, Completed(), INFINITE),
        lambda: WorkerId.new(HALF),
        lambda: Want(worker=WORKER, lease=timedelta(0)),
        lambda: Want(worker=WORKER, lease=-SECOND),
        lambda: Want(worker=WORKER, lease=TOO_LONG),
        lambda: Want(worker=WORKER, limit=-1),
        lambda: Want(worker=WORKER, limit=BIGGEST + 1),
        lambda: Want(worker=WORKER, run=HALF),
        lambda: Want(worker=WORKER, kinds=frozenset({HALF})),
        lambda: Selection(older_than=timedelta.max),
        lambda: Selection(older_than=-SECOND),
        lambda: Selection(run=HALF),
        lambda: Selection(ids=frozenset({HALF})),
        lambda: Selection(partitions=frozenset({HALF})),
        lambda: Selection(error=HALF),
        lambda: lease_seconds(timedelta(0)),
        lambda: page_start("abc", 1),
        lambda: page_start(HALF, 1),
        lambda: page_start("", -1),
    ],
)
def test_what_no_queue_could_live_with_is_not_even_made(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()


def test_what_is_just_within_the_bounds_is_made() -> None:
    assert Snoozed(LONGEST).delay == Failed(BROKEN, LONGEST, BIGGEST).retry_in == LONGEST
    assert Want(worker=WORKER, limit=0, lease=LONGEST).limit == 0
    assert Want(worker=WORKER, limit=BIGGEST, lease=timedelta(microseconds=1)).limit == BIGGEST
    assert Selection(older_than=LONGEST).older_than == LONGEST
    assert Selection(older_than=timedelta(0)).older_than == timedelta(0)
    assert Settlement(LEASE, Completed(), 0.0).seconds == 0.0


@pytest.mark.parametrize(("job_id", "number"), [("1", 1), ("007", 7), ("", 0), ("x", 0), ("-1", 0), ("１", 0)])
def test_an_id_says_its_number_or_that_it_is_none(job_id: str, number: int) -> None:
    assert number_of(job_id) == number


class _Point(msgspec.Struct):
    x: float


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    for value in (number, {"a": number}, {"a": [None, {"b": (1, number)}]}, [_Point(number)]):
        with pytest.raises(UsageError, match="NaN or an infinite number"):
            encode(value)
    assert encode({"a": None, "b": [1.5, "null"]}) == b'{"a":null,"b":[1.5,"null"]}'
