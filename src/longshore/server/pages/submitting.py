"""The page to submit jobs: a form made from the schema of a kind, or a line for each job."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Controller, Response, get, post
from litestar.params import FromQuery

from longshore.errors import UsageError
from longshore.job import NewJob, new_job
from longshore.server.api.request import ApiCall, ServedQueue, form_of
from longshore.server.auth.guard import SCOPE, WRITES
from longshore.server.auth.keys import Scope
from longshore.server.pages.addresses import run_of
from longshore.server.pages.render import respond
from longshore.server.served import Served
from longshore.stored import UNFIT, Json, JsonObject

_FIELD = "payload."
_MOST_LINES = 1000


class SubmitField(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a kind, as a field of a form."""

    name: str
    input: str
    """`text`, `number`, `checkbox`, `select` or `json`."""
    required: bool
    value: str = ""
    help: str = ""
    choices: dict[str, Json] = {}
    """The value of each choice, by its text."""
    whole: bool = False
    plain: bool = False
    """Whether what is no JSON is a text."""


class SubmitRoutes(Controller):
    """The routes to submit jobs."""

    path = "/submit"
    include_in_schema = False
    opt = {SCOPE: (Scope.SUBMIT,), WRITES: True}  # noqa: RUF012 (Litestar declares it so)

    @get("/")
    async def show(self, request: ApiCall, served: ServedQueue, kind: FromQuery[str] = "") -> Response[bytes]:
        """Return the form."""
        return await _form(request, served, {"kind": kind, "run": request.query_params.get("run", "")})

    @post("/")
    async def submit(self, request: ApiCall, served: ServedQueue) -> Response[bytes]:
        """Submit what the form says; with a fault, return the form with its values."""
        given = dict(await form_of(request))
        try:
            jobs = _jobs(given, (await served.kinds.schemas()).get(given.get("kind", "")))
            request.user.check_new(jobs)
            await served.kinds.check(jobs)
            done = await served.submit(jobs)
        except UsageError as error:
            return await _form(request, served, given, fault=str(error), status=422)
        return await _form(request, served, given, done=done)


async def _form(
    request: ApiCall, served: Served, given: dict[str, str], *, fault: str = "", done: Any = None, status: int = 200
) -> Response[bytes]:
    schemas = await served.kinds.schemas()
    counts = [count for count in await served.queue.stats() if request.user.reaches(count)]
    limited = request.user.key.kinds
    known = {kind for kind in schemas if limited is None or kind in limited}
    schema = schemas.get(given.get("kind", "")) if given.get("kind", "") in known else None
    context = {
        "given": given,
        "fields": [] if schema is None else fields_of(schema, given),
        "has_schema": schema is not None,
        "kinds": sorted(known | {count.kind for count in counts})[:200],
        "runs": sorted({count.run for count in counts}, reverse=True)[:200],
        "fault": fault,
        "done": done,
    }
    return respond(request, "submit.html", context, status=status)


def fields_of(schema: JsonObject, given: dict[str, str]) -> list[SubmitField]:
    """Return the fields of a form for the top-level properties of a schema."""
    properties, required = schema.get("properties"), schema.get("required")
    wanted = frozenset(required) if isinstance(required, list) else frozenset[str]()
    found = []
    for name, each in properties.items() if isinstance(properties, dict) else ():
        rule, others = _rules(schema, each)
        default = rule.get("default")
        listed = rule.get("enum")
        if rule.get("type") == "boolean" and name not in wanted:
            listed = [True, False]  # a box could not say that the handler has to decide
        choices = {_text(choice): choice for choice in listed} if isinstance(listed, list) else {}
        found.append(
            SubmitField(
                name=name,
                input="select" if choices else "json" if others else _INPUTS.get(str(rule.get("type")), "json"),
                required=name in wanted,
                value=given.get(_FIELD + name, "" if default is None else _text(default)),
                help=str(rule.get("description", "")),
                choices=choices,
                whole=rule.get("type") == "integer",
                plain=any(each.get("type") == "string" for each in others),
            )
        )
    return found


_INPUTS = {"string": "text", "integer": "number", "number": "number", "boolean": "checkbox"}


def _rules(schema: JsonObject, rule: Json) -> tuple[JsonObject, list[JsonObject]]:
    """Return the rule of a parameter, and its alternatives if it may be of several types, besides null."""
    own = _resolved(schema, rule)
    options = own.get("anyOf")
    if not isinstance(options, list):
        return own, []
    others = [each for option in options if (each := _resolved(schema, option)).get("type") != "null"]
    return ({**others[0], **own}, []) if len(others) == 1 else (own, others)


def _resolved(schema: JsonObject, rule: Json) -> JsonObject:
    """Return a rule, or the definition in the same schema that it names."""
    found = rule if isinstance(rule, dict) else {}
    definitions, name = schema.get("$defs"), str(found.get("$ref", "")).removeprefix("#/$defs/")
    named = definitions.get(name) if isinstance(definitions, dict) else None
    return {**named, **found} if isinstance(named, dict) else found


def _text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _jobs(given: dict[str, str], schema: JsonObject | None) -> list[NewJob]:
    kind, run, partition = (given.get(name, "").strip() for name in ("kind", "run", "partition"))
    if not kind or not run:
        raise UsageError("A job needs a run and a kind.")
    payloads = [_payload(schema, given)] if schema is not None else _lines(given.get("lines", ""))
    return [new_job(kind, payload, run=run_of(run), partition=partition) for payload in payloads]


def _payload(schema: JsonObject, given: dict[str, str]) -> JsonObject:
    payload: JsonObject = {}
    for field in fields_of(schema, given):
        text = given.get(_FIELD + field.name, "")
        if field.input == "checkbox":
            payload[field.name] = text == "on"
        elif not text.strip():
            continue  # the handler has its default
        elif field.input in {"number", "json"}:
            payload[field.name] = _json(text, field.name, plain=field.plain)
        else:
            payload[field.name] = field.choices.get(text, text)
    return payload


def _lines(text: str) -> list[JsonObject]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise UsageError("Give a URL or a JSON object on each line.")
    if len(lines) > _MOST_LINES:
        raise UsageError(f"The form takes {_MOST_LINES:,} lines. For more: longshore submit KIND --urls-file FILE")
    return [
        _json(line, f"line {number}") if line.startswith("{") else {"url": line} for number, line in enumerate(lines, 1)
    ]


def _json(text: str, place: str, *, plain: bool = False) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNFIT as error:
        if plain:
            return text
        raise UsageError(f"{place}: this is not JSON: {error}") from error
