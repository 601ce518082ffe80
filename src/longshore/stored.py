"""What every medium can keep: JSON that can be read back, and the bounds of numbers, instants, durations and texts.

One value that a medium cannot read again would stop a listing for everybody. So it is refused where it is made or
written, by a `UsageError` that names it, before anything of it is stored.
"""

from __future__ import annotations

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
"""How many lists and dicts may lie within one another; readers have a stack to keep."""
BIGGEST = 2**31 - 1
"""Of priorities and limits, either way."""
MOST = 10**9
"""Of claims, attempts and ancestors: what counts up stays far below what a column of a database holds."""
LATEST = 253_402_300_799.0
"""The last second of the year 9999, in seconds since 1970."""
LONGEST = timedelta(days=36_525)
"""A hundred years."""
UNFIT = (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError, msgspec.MsgspecError)
"""What is raised for a value that JSON cannot say, or that is not JSON."""

_NEVER_TOO_DEEP = 2 * DEEPEST
"""In so few bytes nothing opens and closes that often."""
_TEXT = re.compile(rb'"[^"]*"')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}"')

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NUMBER = (int, float)  # named once: a union would be made anew with every call
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def encode(value: Any, what: str = "A value") -> bytes:
    """A value as JSON that is stored. Raises `UsageError` for one that could not be read back.

    A `msgspec.Raw` is JSON already; it is believed only after a look.
    """
    try:
        encoded = _encode(value)
        if type(value) is dict and _is_plain(value):
            return encoded
        # A whole look only at what we did not write ourselves; but JSON of others may be a part of the value as well.
        (_decode if type(value) is msgspec.Raw else _skip)(encoded)
        if not encoded.isascii():
            encoded.decode()
    except UNFIT as error:
        raise refusal(error, what) from error
    if len(encoded) > _NEVER_TOO_DEEP and _is_deep(encoded):
        raise UsageError(f"{what} cannot be stored: it is nested more than {DEEPEST} deep")
    return encoded


def _is_plain(value: dict[Any, Any]) -> bool:
    """Whether there is nothing in it but texts, numbers and flat lists of them: what was encoded can be read back.

    As most values are, and to look at what they are made of takes less than to look at the JSON.
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


def refusal(error: Exception, what: str) -> UsageError:
    """What to raise for one of `UNFIT`."""
    return UsageError(f"{what} cannot be stored: {_reason(error)}")


def check_texts(texts: Iterable[str], what: str) -> None:
    """Raises `UsageError` where one of them is no text, or has half of a character (a lone surrogate)."""
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise UsageError(f"{what} must be text of whole characters: {_reason(error)}") from error


def check_payload(payload: object, what: str) -> None:
    """Raises `UsageError` for what is no dict."""
    if not isinstance(payload, dict):
        raise UsageError(f"{what} must be a dict, not a {type(payload).__name__}")


def check_whole(number: int, least: int, most: int, what: str) -> None:
    """Raises `UsageError` for what is no whole number between the two."""
    if type(number) is not int or not least <= number <= most:
        raise UsageError(f"{what} must be a whole number from {least} to {most}, not {_shown(number)}")


def check_instant(instant: float, what: str) -> None:
    """Raises `UsageError` for what is no instant between the years 1970 and 9999."""
    if not isinstance(instant, _NUMBER) or not 0 <= instant <= LATEST:
        raise UsageError(
            f"{what} must be an instant between the years 1970 and 9999, in seconds since 1970, not {_shown(instant)}"
        )


def check_seconds(seconds: float, what: str) -> None:
    """Raises `UsageError` for a number of seconds that is none."""
    if not isinstance(seconds, _NUMBER) or not abs(seconds) <= sys.float_info.max:
        raise UsageError(f"{what} must be a finite number, not {_shown(seconds)}")


def check_duration(duration: timedelta, what: str) -> None:
    """Raises `UsageError` for what is no duration from nothing to a hundred years."""
    if not isinstance(duration, timedelta) or not timedelta(0) <= duration <= LONGEST:
        raise UsageError(f"{what} must be a duration from nothing to 100 years, not {_shown(duration)}")


def _is_deep(encoded: bytes) -> bool:
    if encoded.count(b"[") + encoded.count(b"{") <= DEEPEST:
        return False
    brackets = _brackets(encoded)
    for _ in range(DEEPEST):
        if not brackets:
            return False
        # Takes away what holds nothing, and so exactly the innermost level.
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _brackets(encoded: bytes) -> bytes:
    """The brackets of JSON without those in texts, all of one kind. Most large values have none in texts."""
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
        return f"one of {value.bit_length()} bits"  # Python refuses to write out the very long ones
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
