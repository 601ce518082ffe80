"""Standard input, output and error, whoever started us and however they were left: a command can always use them."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def make_usable() -> None:
    """Where one of them is closed, nothing is read or written; what an encoding has no sign for becomes `?`.

    Closed ones are opened on nothing under their own numbers, lest a file that is opened later be taken for them.
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
