"""Where commands print: results on standard output, messages for the person on standard error."""

from __future__ import annotations

import sys
from typing import Any, TextIO

import msgspec

from longshore.system.printable import printable_json, printable_lines


def write(text: str) -> None:
    """Write a line on standard output, or several. Control characters in it are removed."""
    sys.stdout.write(f"{printable_lines(text)}\n")


def note(text: str) -> None:
    """Write a line on standard error: it is for the person, and never gets into a pipe."""
    sys.stderr.write(f"{printable_lines(text)}\n")
    sys.stderr.flush()


def confirmed(question: str, to: TextIO) -> bool:
    """Ask the person at the terminal, and return whether the answer is yes."""
    to.write(f"{question} [y/N] ")
    to.flush()
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        note("")
        raise
    return answer.strip().lower() in {"y", "yes"}


def write_json(value: Any) -> None:
    """Write one JSON value on standard output."""
    write(printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))
