"""The signature of a failure: the error and its place in the user's code. Failures with one signature are one fault."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec

from longshore.errors import Failure

_OWN = str(Path(__file__).parents[2])
_NOT_USER_CODE = tuple(
    f"{place}{os.sep}"
    for place in {*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), _OWN}
)


class FailureSignature(msgspec.Struct, frozen=True):
    """The properties that failures of one fault share."""

    error: str
    """The full name of the exception; the type of the failure if nothing was raised."""
    file: str
    function: str
    line: int
    cause: str = ""
    """The status that a server answered, which tells failures of one exception at one place apart."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    def digest(self, run: str) -> str:
        """Return a short name for this fault in a run."""
        parts = (run, self.error, self.file, self.function, str(self.line), *([self.cause] if self.cause else []))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def signature_of(
    failure: Failure, function: Callable[..., Any], error: BaseException | None = None
) -> FailureSignature:
    """Return the signature of a failed attempt of this handler function; `error` is the exception, if one was raised.

    The place is the innermost line of the user's code: not Longshore's, an installed package's or Python's own. Without
    such a line (a timeout, a returned failure) it is the handler itself.
    """
    code: CodeType | None = getattr(function, "__code__", None)
    file, name, line = ("", "", 0) if code is None else (code.co_filename, _name(code), code.co_firstlineno)
    step = None if error is None else error.__traceback__
    while step is not None:
        inner = step.tb_frame.f_code
        if not inner.co_filename.startswith((*_NOT_USER_CODE, "<")):
            file, name, line = inner.co_filename, _name(inner), step.tb_lineno
        step = step.tb_next
    cause = failure.cause if failure.cause != failure.exception_name else ""
    return FailureSignature(failure.exception or failure.error_type, Path(file).name, name, line, cause)


def _name(code: CodeType) -> str:
    """Return the name of the function; for a comprehension or lambda, that of the enclosing function."""
    named = [part for part in code.co_qualname.split(".") if not part.startswith("<")]
    return named[-1] if named else code.co_name
