"""Make standard input, output and error usable, even if the calling program closed them."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def make_usable() -> None:
    """Open a closed stream on the null device; replace characters that the encoding lacks by `?`.

    The null device gets the number of the closed stream, so that no file that is opened later gets it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _nothing(number))
        elif number and isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def _nothing(number: int) -> TextIO:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)
    return open(number, "w" if number else "r", encoding="utf-8", errors="replace", closefd=False)
