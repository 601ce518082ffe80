"""Payloads are checked by the schemas of their kinds, in time that no submitter can make long."""

from __future__ import annotations

from typing import Any

import pytest
from tests.linear_time import assert_linear
from tests.server.conftest import Api

from longshore.clock import ManualClock
from longshore.errors import UsageError
from longshore.extensions.find import require
from longshore.extensions.kind_schemas import publish_schemas
from longshore.extensions.shared_state import SharedState
from longshore.job import NewJob
from longshore.media.memory import MemoryQueue
from longshore.server.auth.keys import Scope
from longshore.server.kind_checks import KindChecks

EVIL = "^(a+)+$"


async def checks(rule: dict[str, Any]) -> KindChecks:
    queue = MemoryQueue(ManualClock())
    await publish_schemas(queue, {"page": {"type": "object", "properties": {"a": rule}}})
    return KindChecks(queue, ManualClock())


def job(value: object) -> NewJob:
    return NewJob(run="r", kind="page", key="k", payload={"a": value})


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"type": "string", "pattern": EVIL}, "a" * 60 + "!"),
        ({"type": "object", "patternProperties": {EVIL: {}}}, {"a" * 60 + "!": 1}),
        ({"type": "object", "patternProperties": {EVIL: {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}),
    ],
)
async def test_a_payload_that_would_keep_a_regular_expression_busy_for_years_is_accepted_at_once(
    rule: dict[str, Any], value: object
) -> None:
    await (await checks(rule)).check([job(value)])


async def test_a_list_that_must_not_repeat_takes_linear_time() -> None:
    rule = {"type": "array", "uniqueItems": True}
    found = await checks(rule)
    with pytest.raises(UsageError, match="non-unique"):
        await found.check([job([{"x": 1}, {"x": 1}])])

    def check(jobs: list[NewJob]) -> None:
        # It waits for nothing.
        with pytest.raises(StopIteration):
            found.check(jobs).send(None)

    assert_linear(check, lambda n: [job([{"x": number} for number in range(n)])])


async def test_schemas_that_were_published_hold_for_the_next_submission(api: Api) -> None:
    """The server has just read the old ones, and no time passes."""
    state = require(api.served.queue, SharedState, "has no shared state.")
    await publish_schemas(state, {"page": {"type": "object", "required": ["a"]}})
    assert (await api.send("POST", "/jobs", {"jobs": [{"kind": "page", "payload": {}}]}))[0] == 422
    await publish_schemas(state, {"page": {"type": "object"}})
    await api.post("/jobs", {"jobs": [{"kind": "page", "payload": {}}]})


async def test_other_rules_are_kept(api: Api) -> None:
    await publish_schemas(
        api.served.queue,  # type: ignore[arg-type]
        {"page": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}},
    )
    key = api.make(Scope.SUBMIT)
    for payload, status in (({"a": 1}, 200), ({"a": []}, 422), ({"b": 1}, 422)):
        body: dict[str, Any] = {"jobs": [{"run": "r", "kind": "page", "key": str(payload), "payload": payload}]}
        assert (await api.send("POST", "/jobs", body, key=key))[0] == status
