"""Payloads of new jobs, checked against the schemas of their kinds before anything is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from longshore.clock import Clock
from longshore.errors import UsageError
from longshore.extensions.find import find
from longshore.extensions.kind_schemas import read_schemas
from longshore.extensions.shared_state import SharedState
from longshore.job import NewJob
from longshore.queue import Queue
from longshore.stored import JsonObject
from longshore.url import mask_urls

_READ_EVERY = 5.0
_INTEGER, _NUMBER = re.compile(r"\s*[+-]?\d{1,4000}\s*"), re.compile(r"\s*[+-]?[\d.]{1,300}([eE][+-]?\d+)?\s*")
_BOOLEANS = frozenset({"true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "0", "1"})
_MOST_FAULTS, _LONGEST_FAULT = 100, 300
_MOST_COMPARED = 500
"""The most items of a list that are compared with each other; the handler compares longer ones."""

Check = Callable[[JsonObject], Iterable[str]]
"""Returns the faults of a payload."""


class InvalidPayloadsError(UsageError):
    """Payloads are not what their kinds take. `faults` has every fault of every job, up to a bound."""

    def __init__(self, faults: Sequence[str]) -> None:
        shown = "; ".join(faults[:5]) + ("; …" if len(faults) > 5 else "")
        super().__init__(f"Payloads are not what their kinds take. {shown}")
        self.faults = list(faults)


class KindChecks:
    """The schemas of all kinds, read again every few seconds."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._state = find(queue, SharedState)
        self._clock = clock
        self._read_at = float("-inf")
        self._changes = 0
        self._schemas: dict[str, JsonObject] = {}
        self._checks: dict[str, Check] = {}

    def look_again(self) -> None:
        """Read the schemas before the next check: one has been changed."""
        self._read_at = float("-inf")
        self._changes += 1

    async def schemas(self) -> dict[str, JsonObject]:
        """Return the schema of each kind that is known."""
        if self._state is not None and self._clock.monotonic() - self._read_at >= _READ_EVERY:
            changes = self._changes
            schemas = await read_schemas(self._state)
            if changes == self._changes:
                self._read_at = self._clock.monotonic()
            if schemas != self._schemas:
                self._schemas, self._checks = schemas, {}
        return self._schemas

    async def check(self, jobs: Sequence[NewJob]) -> None:
        """Raise `InvalidPayloadsError` if a payload is not what its kind takes. Kinds without a schema take all."""
        schemas = await self.schemas()
        faults: list[str] = []
        for number, job in enumerate(jobs):
            if (schema := schemas.get(job.kind)) is None:
                continue
            if job.kind not in self._checks:
                self._checks[job.kind] = _check_of(schema)
            faults += [f"jobs[{number}].payload{fault}" for fault in self._checks[job.kind](job.payload)]
            if len(faults) >= _MOST_FAULTS:
                break
        if faults:
            raise InvalidPayloadsError(faults[:_MOST_FAULTS])


def _check_of(schema: JsonObject) -> Check:
    # Imported here: a server whose workers publish no schemas starts faster.
    import referencing
    from jsonschema import Draft202012Validator, SchemaError, validators

    strict = Draft202012Validator.VALIDATORS["type"]

    def lenient(validator: Any, types: Any, value: Any, schema: Any) -> Iterator[Any]:
        # A handler takes "5" for a number, as rows of a CSV file have it.
        if not _means({types} if isinstance(types, str) else set(types), value):
            yield from strict(validator, types, value, schema)

    known = Draft202012Validator.VALIDATORS

    def unchecked(*_: Any) -> Iterator[Any]:
        # Regular expressions of a schema may take exponential time for a text that a submitter chooses.
        return iter(())

    def additional(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from known["additionalProperties"](validator, rule, value, schema)

    def unique(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, list) and len(value) <= _MOST_COMPARED:
            yield from known["uniqueItems"](validator, rule, value, schema)

    by_pattern = dict.fromkeys(("pattern", "patternProperties", "unevaluatedProperties"), unchecked)
    bounded = {**by_pattern, "additionalProperties": additional, "uniqueItems": unique}
    validator_class = validators.extend(Draft202012Validator, {"type": lenient, **bounded})
    try:
        validator_class.check_schema(schema)
    except SchemaError:
        return lambda _: ()  # the handler itself checks its payloads
    # Without a way to fetch them, schemas of other places are never asked for.
    validator = validator_class(schema, registry=referencing.Registry())

    def check(payload: JsonObject) -> Iterable[str]:
        try:
            found = [_words(error) for error in validator.iter_errors(payload)]
        except (referencing.exceptions.Unresolvable, RecursionError):
            return ()
        return found

    return check


def _means(types: set[str], value: object) -> bool:
    """Return whether a text means a number or a boolean, if that is what is wanted."""
    if not isinstance(value, str):
        return False
    return (
        ("integer" in types and _INTEGER.fullmatch(value) is not None)
        or ("number" in types and _NUMBER.fullmatch(value) is not None)
        or ("boolean" in types and value.lower() in _BOOLEANS)
    )


def _words(error: Any) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return mask_urls(f"{where}: {error.message}")[:_LONGEST_FAULT]


class KindBody(msgspec.Struct, frozen=True):
    """A kind of jobs."""

    kind: str
    schema: JsonObject | None
    """The payload it takes, as JSON Schema; null if no worker has told."""
