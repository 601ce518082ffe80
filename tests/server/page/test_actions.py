"""Actions of people: jobs from a form, orders to workers, and the command line's own effects."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from selectolax.lexbor import LexborHTMLParser as HTMLParser
from tests.server.page.conftest import Visitor

from longshore.extensions.find import require
from longshore.extensions.kind_schemas import publish_schemas
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.shared_state import SharedState
from longshore.extensions.worker_orders import ORDERS
from longshore.job import State
from longshore.lease import WorkerId
from longshore.queue import Selection
from longshore.server.auth.keys import Scope

SCHEMA = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "The address of the page"},
        "depth": {"type": "integer", "default": 2},
        "deep": {"type": "boolean"},
        "mode": {"enum": ["fast", "slow"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["url", "depth"],
    "additionalProperties": False,
}


async def _publish(visitor: Visitor) -> None:
    await publish_schemas(require(visitor.api.served.queue, SharedState, "lacks it"), {"page": SCHEMA})


def _hidden(page: HTMLParser, form: str) -> list[tuple[str, str]]:
    """Return the hidden fields of a form, as a browser sends them."""
    fields = page.css(f"{form} [type=hidden]")
    return [(each.attributes["name"] or "", each.attributes["value"] or "") for each in fields]


async def test_the_form_of_a_kind_has_a_field_for_each_parameter(visitor: Visitor) -> None:
    await _publish(visitor)
    await visitor.log_in()
    page = (await visitor.get("/submit?kind=page")).page
    names = [each.attributes["name"] for each in page.css("[name^='payload.']")]
    assert names == ["payload.url", "payload.depth", "payload.deep", "payload.mode", "payload.tags"]
    depth = page.css_first("[name='payload.depth']")
    assert depth is not None and (depth.attributes["type"], depth.attributes["value"]) == ("number", "2")
    assert "The address of the page" in (page.body.text() if page.body else "")


async def test_a_form_becomes_a_job_with_typed_parameters(visitor: Visitor) -> None:
    await _publish(visitor)
    await visitor.log_in()
    form = {"kind": "page", "run": "r", "partition": "NV", "payload.url": "https://a.test/", "payload.depth": "3"}
    answer = await visitor.post(
        "/submit", form | {"payload.deep": "true", "payload.mode": "slow", "payload.tags": '["a"]'}
    )
    assert answer.status == 201 or "1 new job" in answer.text
    (job,) = await visitor.api.served.queue.jobs(Selection())
    assert job.payload == {"url": "https://a.test/", "depth": 3, "deep": True, "mode": "slow", "tags": ["a"]}
    assert (job.run, job.partition) == ("r", "NV")


ODD = {
    "type": "object",
    "properties": {
        "url": {"type": "string"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "most": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "level": {"enum": [1, 2], "type": "integer"},
        "form": {"$ref": "#/$defs/Form"},
        "deep": {"type": "boolean"},
        "code": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "required": ["url"],
    "$defs": {"Form": {"enum": ["csv", "json"], "type": "string"}},
}


async def test_the_parameters_of_real_handlers_are_entered_as_people_write_them(visitor: Visitor) -> None:
    await publish_schemas(require(visitor.api.served.queue, SharedState, "lacks it"), {"page": ODD})
    await visitor.log_in()
    page = (await visitor.get("/submit?kind=page")).page
    fields = {
        each.attributes["name"]: each.attributes.get("type") or each.tag for each in page.css("[name^='payload']")
    }
    assert fields == {
        "payload.url": "text", "payload.note": "text", "payload.most": "number", "payload.level": "select",
        "payload.form": "select", "payload.deep": "select", "payload.code": "textarea",
    }  # fmt: skip
    form = {"kind": "page", "run": "r", "payload.url": "https://a.test/"}
    filled = {"note": "by hand", "most": "5", "level": "2", "form": "csv", "deep": "false", "code": "a-1"}
    for more in ({}, {f"payload.{name}": text for name, text in filled.items()}):
        run = {"run": "full" if more else "r"}
        assert (
            await visitor.post("/submit", form | {"payload.deep": "", "payload.code": ""} | run | more)
        ).status < 300
    first, second = await visitor.api.served.queue.jobs(Selection())
    assert first.payload == {"url": "https://a.test/"}, "the handler has its defaults"
    typed = {"note": "by hand", "most": 5, "level": 2, "form": "csv", "deep": False, "code": "a-1"}
    assert second.payload == {"url": "https://a.test/"} | typed


async def test_a_form_wakes_a_waiting_worker_at_once(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    hinted: list[str] = []
    monkeypatch.setattr(visitor.api.served.waiting, "hint", lambda jobs: hinted.extend(job.kind for job in jobs))
    await visitor.log_in()
    await visitor.post("/submit", {"kind": "any", "run": "r", "lines": "https://a.test/"})
    jobs = {"jobs": [{"kind": "each", "payload": {}}], "items": True}
    await visitor.api.post("/jobs", jobs)
    assert hinted == ["any", "each"]


async def test_a_form_with_a_fault_is_shown_again_with_its_values(visitor: Visitor) -> None:
    await _publish(visitor)
    await visitor.log_in()
    form = {"kind": "page", "run": "r", "payload.url": "https://a.test/", "payload.depth": "many"}
    answer = await visitor.post("/submit", form)
    assert answer.status == 422 and answer.page.css_first(".fault") is not None
    assert 'value="https://a.test/"' in answer.text
    assert not await visitor.api.served.queue.jobs(Selection())


async def test_a_kind_without_a_schema_takes_lines(visitor: Visitor) -> None:
    await visitor.log_in(Scope.READ, Scope.SUBMIT)
    lines = 'https://a.test/1\n\n{"n": 2}\nhttps://a.test/1'
    answer = await visitor.post("/submit", {"kind": "any", "run": "r", "lines": lines})
    assert "2 new jobs, 1 duplicate" in answer.text
    for wrong in ("", "{", "\n".join(["https://a.test/"] * 1001)):
        assert (await visitor.post("/submit", {"kind": "any", "run": "r", "lines": wrong})).status == 422


async def test_a_limited_key_submits_only_into_its_runs(visitor: Visitor) -> None:
    await visitor.log_in(Scope.READ, Scope.SUBMIT, runs=["ours"])
    for run, status in (("theirs", 422), ("ours", 200)):
        answer = await visitor.post("/submit", {"kind": "any", "run": run, "lines": "https://a.test/"})
        assert answer.status == status
    assert [job.run for job in await visitor.api.served.queue.jobs(Selection())] == ["ours"]


async def test_an_action_on_a_selection_changes_the_selected_jobs_and_never_all_that_match(visitor: Visitor) -> None:
    api = visitor.api
    await api.submit("a", "b", "c")
    await visitor.log_in()
    page = (await visitor.get("/jobs?run=r")).page
    sent = _hidden(page, "form[data-selection]")
    nothing = await visitor.get(f"/confirm?{urlencode([*sent, ('verb', 'cancel')])}")
    assert nothing.status == 422 and "No job is selected" in nothing.text
    boxes = [each.attributes["value"] or "" for each in page.css("form[data-selection] input[name=id]")]
    chosen = [*sent, ("verb", "cancel"), ("id", boxes[0]), ("id", boxes[2])]
    question = await visitor.get(f"/confirm?{urlencode(chosen)}")
    assert "Cancel 2 jobs?" in question.text
    form = _hidden(question.page, "main form")
    assert (await visitor.post("/act", form)).status == 303
    states = [job.state for job in await api.served.queue.jobs(Selection())]
    assert states == [State.CANCELLED, State.PENDING, State.CANCELLED]


async def test_actions_on_all_that_match_are_offered_with_the_filter_of_the_list(visitor: Visitor) -> None:
    api = visitor.api
    await api.submit("a", "b")
    await api.submit("c", run="other")
    await api.claim(limit=2)
    await visitor.log_in()
    page = (await visitor.get("/jobs?run=r&state=claimed")).page
    offered = {each.text(): each.attributes["href"] or "" for each in page.css(".bulkbar a[data-confirm]")}
    assert offered.keys() == {"Cancel all that match", "Release all that match"}
    question = await visitor.get(offered["Release all that match"])
    assert "Release 2 jobs?" in question.text
    form = _hidden(question.page, "main form")
    assert (await visitor.post("/act", form)).status == 303
    assert {job.state for job in await api.served.queue.jobs(Selection())} == {State.PENDING}


async def test_an_admin_drains_a_worker(visitor: Visitor) -> None:
    queue = visitor.api.served.queue
    registry = require(queue, WorkerRegistry, "lacks it")
    await registry.register(WorkerId("w-1", "w-1/x"), timedelta(hours=1), WorkerInfo())
    await visitor.log_in(Scope.READ, Scope.SUBMIT)
    assert (await visitor.post("/act", {"verb": "drain", "worker": "w-1"})).status == 403
    await visitor.log_in()
    assert "Drain w-1?" in (await visitor.get("/confirm?verb=drain&worker=w-1")).text
    assert (await visitor.post("/act", {"verb": "drain", "worker": "w-1", "back": "/workers"})).status == 303
    assert len((await require(queue, SharedState, "lacks it").read_entries(ORDERS)).entries) == 1
    assert (await visitor.post("/act", {"verb": "drain", "worker": "w-2"})).status == 404
