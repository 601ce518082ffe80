"""The signature of a failure: which error, and where in the user's own code. Those of one signature are one fault."""

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
_FOREIGN = tuple(
    f"{place}{os.sep}"
    for place in {*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), _OWN}
)


class FailureSignature(msgspec.Struct, frozen=True):
    """What two failures have in common that are one fault."""

    error: str
    """The exception by its full name; where nothing was raised, the type of the failure."""
    file: str
    function: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    def digest(self, run: str) -> str:
        """A short name for this fault in a run."""
        parts = (run, self.error, self.file, self.function, str(self.line))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def signature_of(
    failure: Failure, function: Callable[..., Any], error: BaseException | None = None
) -> FailureSignature:
    """The signature of a failed attempt of this handler function, and of the exception, where one was raised.

    The place is the innermost line of code that is neither Longshore's nor of an installed package nor Python's own;
    the handler itself where there is no such line: it timed out, or returned that it failed.
    """
    code: CodeType | None = getattr(function, "__code__", None)
    file, name, line = ("", "", 0) if code is None else (code.co_filename, _name(code), code.co_firstlineno)
    step = None if error is None else error.__traceback__
    while step is not None:
        inner = step.tb_frame.f_code
        if not inner.co_filename.startswith((*_FOREIGN, "<")):
            file, name, line = inner.co_filename, _name(inner), step.tb_lineno
        step = step.tb_next
    return FailureSignature(failure.exception or failure.error_type, Path(file).name, name, line)


def _name(code: CodeType) -> str:
    """The function that a person would name: of a comprehension or a lambda, the one that it stands in."""
    named = [part for part in code.co_qualname.split(".") if not part.startswith("<")]
    return named[-1] if named else code.co_name
