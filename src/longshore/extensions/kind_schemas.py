"""The payloads that kinds of jobs take, as JSON Schema: workers publish them, submitters read them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.extensions.shared_state import SharedState, StateEntry
from longshore.stored import JsonObject

KINDS = "kinds"
"""The namespace with an entry for each kind whose handler is known."""


async def publish_schemas(state: SharedState, schemas: Mapping[str, JsonObject]) -> None:
    """Store the schema of each kind. Of two versions of a handler, the one that started last is kept.

    Another process that publishes at the same time may win: all workers of a queue should run the same handlers.
    """
    there = await state.read_entries(KINDS, frozenset(schemas))
    new = [
        StateEntry(kind, there.get(kind).version, {"schema": schema})
        for kind, schema in schemas.items()
        if _schema(there.get(kind)) != schema
    ]
    if new:
        await state.swap_entries(KINDS, new)


async def read_schemas(state: SharedState, kinds: frozenset[str] | None = None) -> dict[str, JsonObject]:
    """Return the schemas of kinds, or of all kinds that are known."""
    entries = (await state.read_entries(KINDS, kinds)).entries
    return {entry.name: schema for entry in entries if (schema := _schema(entry)) is not None}


def _schema(entry: StateEntry) -> JsonObject | None:
    found = entry.value.get("schema") if isinstance(entry.value, dict) else None
    return found if isinstance(found, dict) else None


class KindSchema(msgspec.Struct, frozen=True):
    """A kind of jobs, and the payload that it takes."""

    kind: str
    schema: JsonObject
