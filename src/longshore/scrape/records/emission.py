"""An emission: the records of one attempt, checked and filtered as they come, and nowhere but in memory yet."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from longshore.errors import UsageError, ValidationError
from longshore.stored import encode

if TYPE_CHECKING:
    from pydantic import BaseModel

MOST_BYTES = 64 * 1024 * 1024
"""Of one attempt's records, as JSON: they lie in memory until the attempt is settled."""
_LONGEST_REASON = 200
_LONGEST_NUMBER = 4000
"""Digits: what has fewer bytes can be read, whatever it is."""
_OBJECTS = (dict, msgspec.Struct)  # named once: a union would be made anew with every call
_NO_KIND: object = object()
NO_REASON = "rejected"
"""The reason where the filter gave none."""

Keep = Callable[[Any, str], bool | str | None]
"""A filter: given a record (a model where its kind has a schema, else as it was emitted) and its kind. True or None
keeps it, False rejects it, a text rejects it and is the reason."""


class RecordError(ValidationError):
    """A record cannot be kept: it is not what its schema says, or JSON cannot say it. Never retried."""


class EmittedRecord(msgspec.Struct, frozen=True, array_like=True):
    """One record: its kind, and itself as JSON."""

    kind: str
    data: Raw


class Rejected(msgspec.Struct, frozen=True, array_like=True):
    """How many records of a kind the filter rejected for one reason."""

    kind: str
    reason: str
    count: int


class Emitted(msgspec.Struct, frozen=True):
    """All that an attempt emitted, in order. It is JSON, and so may come from another process."""

    encoded: Raw = Raw(b"[]")
    """The records: a list, as JSON, of an `EmittedRecord` each."""
    rejected: tuple[Rejected, ...] = ()

    @property
    def records(self) -> tuple[EmittedRecord, ...]:
        """The records, one by one. Made anew at every call."""
        return _decode_records(self.encoded)


_decode_records = msgspec.json.Decoder(tuple[EmittedRecord, ...]).decode


class Emission:
    """What one attempt emits. Made when it emits for the first time. Records become JSON as they come."""

    __slots__ = ("_bytes", "_keep", "_kind", "_lead", "_pieces", "_rejected", "_schemas")

    def __init__(self, schemas: Mapping[str, type[BaseModel]] | None = None, keep: Keep | None = None) -> None:
        """`schemas` say what the records of each kind are; without any, every record and kind is taken."""
        self._schemas = schemas or {}
        self._keep = keep
        self._kind = _NO_KIND
        """The last one that was checked: there are many records of one kind."""
        self._lead = b""
        """What comes before a record of this kind."""
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._rejected: Counter[tuple[str, str]] = Counter()

    def emit(self, record: object, kind: str = "record") -> bool:
        """Take a record: a dict, a pydantic model, a dataclass. Says whether the filter let it pass.

        It is taken as it is now; to change it afterwards changes nothing. `RecordError` where it is not what the schema
        of its kind says.
        """
        if kind is not self._kind:
            self._lead = _lead(kind)
            self._kind = kind
        shape = None
        if self._schemas:
            shape = self._shape(kind)
            record = shape.checked(record, kind)
        if self._keep is not None and (reason := _reason(self._keep(record, kind))) is not None:
            self._rejected[kind, reason] += 1
            return False
        if shape is not None:
            data = shape.encoded(record)
        elif type(record) is dict:  # nearly always, and often: without a call more than it takes
            try:
                data = encode(record, "A record")
            except UsageError as error:
                raise RecordError(str(error)) from error
        else:
            data = _encoded(record)
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            raise RecordError(
                f"One attempt emitted more than {MOST_BYTES:,} bytes of records. Make several jobs of it, one a part."
            )
        self._pieces += (self._lead, data)
        return True

    def emitted(self) -> Emitted | None:
        """All of it; None where nothing was emitted."""
        if not self._pieces and not self._rejected:
            return None
        rejected = tuple(Rejected(kind, reason, count) for (kind, reason), count in self._rejected.items())
        if not self._pieces:
            return Emitted(rejected=rejected)
        # A lead also ends the record before it; the first has none.
        return Emitted(Raw(b"".join((b"[", self._pieces[0][2:], *self._pieces[1:], b"]]"))), rejected)

    def _shape(self, kind: str) -> _Shape:
        schema = self._schemas.get(kind)
        if schema is None:
            raise RecordError(f"Records of kind '{kind}' are not declared. Declared are: {', '.join(self._schemas)}.")
        return _shape_of(schema)


class _Shape:
    """A schema, made ready once for all attempts."""

    def __init__(self, schema: type[BaseModel]) -> None:
        # Imported here only: handlers without schemas never pay for it.
        from pydantic import TypeAdapter

        adapter = TypeAdapter(schema)
        self._name = schema.__name__
        self._validate = adapter.validator.validate_python
        self._to_json = adapter.serializer.to_json

    def checked(self, record: Any, kind: str) -> Any:
        try:
            return self._validate(record)
        except ValueError as error:  # pydantic's own is one
            raise RecordError(f"A record of kind '{kind}' is not what {self._name} says: {_faults(error)}") from error

    def encoded(self, record: Any) -> bytes:
        try:
            data = self._to_json(record)
            if len(data) > _LONGEST_NUMBER:
                # pydantic writes whole numbers of any length; one that nobody can read would stop every export.
                encode(Raw(data), "A record")
        except UsageError as error:
            raise RecordError(str(error)) from error
        except ValueError as error:
            raise RecordError(f"A record cannot be stored: {error}") from error
        return data


_shape_of = functools.cache(_Shape)


def _lead(kind: object) -> bytes:
    if not isinstance(kind, str) or not kind.strip() or not kind.isprintable():
        raise RecordError(f"A record cannot be of the kind {ascii(kind)[:50]}. Name it in a word: kind='item'.")
    return b"],[" + msgspec.json.encode(kind) + b","


def _reason(verdict: object) -> str | None:
    """Why a record is rejected; None where it is kept."""
    if verdict is None or verdict is True:
        return None
    if verdict is False:
        return NO_REASON
    if isinstance(verdict, str):
        # Any text goes, whatever is wrong with its characters, and no novels.
        return verdict[:_LONGEST_REASON].encode("utf-8", "backslashreplace").decode() or NO_REASON
    raise RecordError(
        f"The filter of records returned {verdict!r}. Let it return True to keep one, False or a reason to reject it."
    )


def _encoded(record: Any) -> bytes:
    try:
        if isinstance(record, _OBJECTS) or is_dataclass(record):
            return encode(record, "A record")
    except UsageError as error:
        raise RecordError(str(error)) from error
    if hasattr(record, "model_dump_json") and not isinstance(record, type):
        schema: type[BaseModel] = type(record)
        return _shape_of(schema).encoded(record)
    raise RecordError(f"A record cannot be a {type(record).__name__}. Emit a dict or a model.")


def _faults(error: ValueError) -> str:
    listed: Callable[[], list[dict[str, Any]]] | None = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    faults = [f"{'.'.join(map(str, fault['loc'])) or 'it'}: {_lower(fault['msg'])}" for fault in listed()]
    more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
    return "; ".join(faults[:5]) + more


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
