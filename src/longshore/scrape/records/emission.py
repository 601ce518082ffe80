"""An emission: the records of one attempt, validated and filtered as they are emitted, and held in memory."""

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
"""The size of one attempt's records as JSON: they stay in memory until the attempt is settled."""
_LONGEST_REASON = 200
_LONGEST_NUMBER = 4000
"""Digits; a record with fewer bytes cannot contain a number too long to read."""
_OBJECTS = (dict, msgspec.Struct)  # a constant: a union would be built at every call
_NO_KIND: object = object()
NO_REASON = "rejected"
"""The reason if the filter gave none."""

Keep = Callable[[Any, str], bool | str | None]
"""A filter, called with a record and its kind. The record is a model if its kind has a schema, else the emitted object.
True or None keeps the record, False rejects it, a text rejects it with that reason."""


class RecordError(ValidationError):
    """A record cannot be stored: it does not match its schema or cannot be encoded as JSON. Not retried."""


class EmittedRecord(msgspec.Struct, frozen=True, array_like=True):
    """One record: its kind and its data as JSON."""

    kind: str
    data: Raw


class Rejected(msgspec.Struct, frozen=True, array_like=True):
    """The number of records of a kind that the filter rejected for one reason."""

    kind: str
    reason: str
    count: int


class Emitted(msgspec.Struct, frozen=True):
    """The records of an attempt in order, as JSON, so that they can be sent to another process."""

    encoded: Raw = Raw(b"[]")
    """A JSON list of `EmittedRecord`."""
    rejected: tuple[Rejected, ...] = ()
    kept: int = 0
    """How many records there are; 0 if they were not counted."""

    @property
    def records(self) -> tuple[EmittedRecord, ...]:
        """The records; decoded at every call."""
        return _decode_records(self.encoded)


_decode_records = msgspec.json.Decoder(tuple[EmittedRecord, ...]).decode


class Emission:
    """The records that one attempt emits, made at its first record. Records are encoded as they are emitted."""

    __slots__ = ("_bytes", "_keep", "_kind", "_pieces", "_prefix", "_rejected", "_schemas")

    def __init__(self, schemas: Mapping[str, type[BaseModel]] | None = None, keep: Keep | None = None) -> None:
        """Make an emission; `schemas` are the models of each kind. Without them, any record and kind is accepted."""
        self._schemas = schemas or {}
        self._keep = keep
        self._kind = _NO_KIND
        """The kind checked last: most records have the same kind as the one before."""
        self._prefix = b""
        """The JSON text before a record of this kind."""
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._rejected: Counter[tuple[str, str]] = Counter()

    def emit(self, record: object, kind: str = "record") -> bool:
        """Add a record (a dict, a pydantic model or a dataclass) and return whether the filter kept it.

        The record is encoded now; later changes to it have no effect. Raise `RecordError` if it does not match the
        schema of its kind.
        """
        if kind is not self._kind:
            self._prefix = _prefix(kind)
            self._kind = kind
        codec = None
        if self._schemas:
            codec = self._schema_codec(kind)
            record = codec.checked(record, kind)
        if self._keep is not None and (reason := _reason(self._keep(record, kind))) is not None:
            self._rejected[kind, reason] += 1
            return False
        if codec is not None:
            data = codec.encoded(record)
        elif type(record) is dict:  # the usual case, inlined for speed
            try:
                data = encode(record, "A record")
            except UsageError as error:
                raise RecordError(str(error)) from error
        else:
            data = _encoded(record)
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            raise RecordError(
                f"One attempt emitted more than {MOST_BYTES:,} bytes of records. Split the work into several jobs."
            )
        self._pieces += (self._prefix, data)
        return True

    def emitted(self) -> Emitted | None:
        """Return all records; None if nothing was emitted."""
        if not self._pieces and not self._rejected:
            return None
        rejected = tuple(Rejected(kind, reason, count) for (kind, reason), count in self._rejected.items())
        if not self._pieces:
            return Emitted(rejected=rejected)
        # A lead also closes the previous record; cut that part off the first lead.
        return Emitted(
            Raw(b"".join((b"[", self._pieces[0][2:], *self._pieces[1:], b"]]"))), rejected, len(self._pieces) // 2
        )

    def _schema_codec(self, kind: str) -> _SchemaCodec:
        schema = self._schemas.get(kind)
        if schema is None:
            raise RecordError(f"Records of kind '{kind}' are not declared. Declared are: {', '.join(self._schemas)}.")
        return _codec_of(schema)


class _SchemaCodec:
    """The prepared validator and encoder of a schema, shared by all attempts."""

    def __init__(self, schema: type[BaseModel]) -> None:
        # Imported here, so that handlers without schemas do not pay for it.
        from pydantic import TypeAdapter

        adapter = TypeAdapter(schema)
        self._name = schema.__name__
        self._validate = adapter.validator.validate_python
        self._to_json = adapter.serializer.to_json

    def checked(self, record: Any, kind: str) -> Any:
        try:
            return self._validate(record)
        except ValueError as error:  # pydantic's own is one
            raise RecordError(f"A record of kind '{kind}' does not match {self._name}: {_faults(error)}") from error

    def encoded(self, record: Any) -> bytes:
        try:
            data = self._to_json(record)
            if len(data) > _LONGEST_NUMBER:
                # pydantic writes integers of any length; one that cannot be read again would stop every export.
                encode(Raw(data), "A record")
        except UsageError as error:
            raise RecordError(str(error)) from error
        except ValueError as error:
            raise RecordError(f"A record cannot be stored: {error}") from error
        return data


_codec_of = functools.cache(_SchemaCodec)


def _prefix(kind: object) -> bytes:
    if not isinstance(kind, str) or not kind.strip() or not kind.isprintable():
        raise RecordError(f"A record cannot be of the kind {ascii(kind)[:50]}. Name it in a word: kind='item'.")
    return b"],[" + msgspec.json.encode(kind) + b","


def _reason(verdict: object) -> str | None:
    """Return why a record is rejected; None if it is kept."""
    if verdict is None or verdict is True:
        return None
    if verdict is False:
        return NO_REASON
    if isinstance(verdict, str):
        # Accept any text: shorten it and escape characters that cannot be encoded.
        return verdict[:_LONGEST_REASON].encode("utf-8", "backslashreplace").decode() or NO_REASON
    raise RecordError(
        f"The record filter returned {verdict!r}. Return True to keep a record, False or a reason to reject it."
    )


def _encoded(record: Any) -> bytes:
    try:
        if isinstance(record, _OBJECTS) or is_dataclass(record):
            return encode(record, "A record")
    except UsageError as error:
        raise RecordError(str(error)) from error
    if hasattr(record, "model_dump_json") and not isinstance(record, type):
        schema: type[BaseModel] = type(record)
        return _codec_of(schema).encoded(record)
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
