"""The values that every medium can store: readable JSON, and limits of numbers, instants, durations and texts.

A stored value that cannot be read again would break every listing that contains it. So such a value is refused when it
is created or written, with a `UsageError` that names it, before any part of it is stored.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from longshore.errors import UsageError

Json: TypeAlias = Any
"""A value read from JSON: None, a bool, a number, a text, a list or a dict of such values.

It is unchecked, as with `json.loads`: with a union of those types, every `payload["url"]` would need its own check.
Parameters with annotations, or a pydantic model, check a payload and give its parts their types.
"""
JsonObject: TypeAlias = dict[str, Json]
"""An object read from JSON, such as the payload of a job."""

DEEPEST = 200
"""The maximum nesting of lists and dicts, so that readers do not overflow their stack."""
BIGGEST = 2**31 - 1
"""The greatest priority or limit; its negative is the least."""
MOST = 10**9
"""The greatest number of claims, attempts and ancestors, far below the maximum of a database column."""
LATEST = 253_402_300_799.0
"""The last second of the year 9999, in seconds since 1970."""
LONGEST = timedelta(days=36_525)
"""A hundred years."""
UNFIT = (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError, msgspec.MsgspecError)
"""The errors raised for a value that JSON cannot represent, or for a text that is not JSON."""

_NEVER_TOO_DEEP = 2 * DEEPEST
"""JSON of at most this many bytes has too few brackets to be nested too deep."""
_TEXT = re.compile(rb'"[^"]*"')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}"')

_PLAIN = frozenset({str, int, float, bool, type(None)})
_WITHOUT_NAN = frozenset({str, int, bool, msgspec.Raw})
_NUMBER = (int, float)  # a constant: a union would be created again by every call
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def encode(value: Any, what: str = "A value") -> bytes:
    """Return a value as JSON to store. Raises `UsageError` if it could not be read again.

    A `msgspec.Raw` is already encoded JSON; it is validated.
    """
    try:
        encoded = _encode(value)
        if b"null" in encoded and type(value) is not msgspec.Raw and has_nan(value):
            raise ValueError("it has NaN or an infinite number, which JSON does not have. Use None instead")
        if type(value) is dict and _is_plain(value):
            return encoded
        # Decode completely only JSON that was not encoded here; a part of the value may be such JSON, too.
        (_decode if type(value) is msgspec.Raw else _skip)(encoded)
        if not encoded.isascii():
            encoded.decode()
    except UNFIT as error:
        raise refusal(error, what) from error
    if len(encoded) > _NEVER_TOO_DEEP and _is_deep(encoded):
        raise UsageError(f"{what} cannot be stored: it is nested more than {DEEPEST} deep")
    return encoded


def _is_plain(value: dict[Any, Any]) -> bool:
    """Return whether a dict holds only texts, numbers and flat lists of them, so that its JSON is certainly readable.

    This holds for most values, and checking the types costs less than checking the JSON.
    """
    for part in value.values():
        kind = type(part)
        if kind is str:
            continue
        if kind is list:
            for item in part:
                if type(item) not in _PLAIN:
                    return False
        elif kind not in _PLAIN:
            return False
    return True


def has_nan(value: object) -> bool:
    """Return whether a value contains a float that JSON does not have. It would be stored as null without a word."""
    if value is None or type(value) in _WITHOUT_NAN:
        return False
    rest = [value]
    while rest:
        part = rest.pop()
        if part is None or type(part) in _WITHOUT_NAN:
            continue
        if isinstance(part, float):
            if not math.isfinite(part):
                return True
        elif isinstance(part, dict):
            rest.extend(part.values())
        elif isinstance(part, list | tuple | set | frozenset):
            rest.extend(part)
        elif isinstance(part, msgspec.Struct):
            rest.extend(getattr(part, name) for name in part.__struct_fields__)
        elif dataclasses.is_dataclass(part) and not isinstance(part, type):
            rest.extend(getattr(part, field.name) for field in dataclasses.fields(part))
    return False


def refusal(error: Exception, what: str) -> UsageError:
    """Return the error to raise for one of `UNFIT`."""
    return UsageError(f"{what} cannot be stored: {_reason(error)}")


def check_texts(texts: Iterable[str], what: str) -> None:
    """Raise `UsageError` if one of `texts` is not a text or has a lone surrogate (half of a character)."""
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise UsageError(f"{what} must be text of whole characters: {_reason(error)}") from error


def check_payload(payload: object, what: str) -> None:
    """Raise `UsageError` if `payload` is not a dict."""
    if not isinstance(payload, dict):
        raise UsageError(f"{what} must be a dict, not a {type(payload).__name__}")


def check_whole(number: int, least: int, most: int, what: str) -> None:
    """Raise `UsageError` if `number` is not a whole number from `least` to `most`."""
    if type(number) is not int or not least <= number <= most:
        raise UsageError(f"{what} must be a whole number from {least} to {most}, not {_shown(number)}")


def check_instant(instant: float, what: str) -> None:
    """Raise `UsageError` if `instant` is not between the years 1970 and 9999."""
    if not isinstance(instant, _NUMBER) or not 0 <= instant <= LATEST:
        raise UsageError(
            f"{what} must be an instant between the years 1970 and 9999, in seconds since 1970, not {_shown(instant)}"
        )


def check_seconds(seconds: float, what: str) -> None:
    """Raise `UsageError` if `seconds` is not a finite number."""
    if not isinstance(seconds, _NUMBER) or not abs(seconds) <= sys.float_info.max:
        raise UsageError(f"{what} must be a finite number, not {_shown(seconds)}")


def check_duration(duration: timedelta, what: str) -> None:
    """Raise `UsageError` if `duration` is not between 0 and 100 years."""
    if not isinstance(duration, timedelta) or not timedelta(0) <= duration <= LONGEST:
        raise UsageError(f"{what} must be a duration from 0 to 100 years, not {_shown(duration)}")


def _is_deep(encoded: bytes) -> bool:
    if encoded.count(b"[") + encoded.count(b"{") <= DEEPEST:
        return False
    brackets = _brackets(encoded)
    for _ in range(DEEPEST):
        if not brackets:
            return False
        # Removes the empty brackets, which are exactly the innermost level.
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _brackets(encoded: bytes) -> bytes:
    """Return the brackets of JSON, all as `[]`, without those in texts. Most large values have none in texts."""
    marks = encoded.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_ONE_KIND, _NO_MARKS).replace(b'""', b"")
    return _TEXT.sub(b"", marks) if b'"' in marks else marks


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"it is nested more than {DEEPEST} deep"
    if isinstance(error, UnicodeEncodeError):
        return f"it has a lone surrogate ({error.object[error.start]!a}), which is half a character"
    return str(error)


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 100:
        return f"one of {value.bit_length()} bits"  # Python refuses to convert very long ones to text
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
