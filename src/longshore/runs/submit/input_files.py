"""Files of URLs and of jobs, read line by line, so that memory does not grow with the file.

A URL file has one URL per line; blank lines and lines that start with `#` are skipped. A JSONL file has one job per
line: an object that is the payload itself, or `{"payload": {…}}` with any of `key`, `priority`, `partition` and
`not_before` beside it. Both are UTF-8; a byte order mark and Windows line ends are accepted. `-` is standard input.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import string
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NoReturn
from urllib.parse import urlsplit

import msgspec

from longshore.errors import InputFileError
from longshore.stored import JsonObject

LONGEST_LINE = 16 * 1024 * 1024
"""A line longer than this many bytes is refused: the file is not a list of jobs."""

STANDARD_INPUT = "standard input"
"""The name of `-` in messages."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#]+(?:[/?#].*)?\Z", re.IGNORECASE)
_BESIDE_PAYLOAD = ("key", "priority", "partition", "not_before")
_LARGEST_PRIORITY = 2**31 - 1  # the largest that every medium can store
_LATEST_INSTANT = 253_402_300_800  # the year 10000, which `datetime` cannot express
_TAKES: dict[str, tuple[type, str]] = {
    "payload": (dict, "an object, {…}"),
    "key": (str, "text"),
    "priority": (int, "a whole number"),
    "partition": (str, "text"),
}


class InputFormat(StrEnum):
    """The content of each line of a file."""

    URLS = "urls"
    JOBS = "jobs"


class InputEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The job that one line describes. The `SubmissionPlan` fills in values that are None."""

    payload: JsonObject
    key: str | None = None
    priority: int | None = None
    partition: str | None = None
    not_before: float | None = None
    kind: str | None = None
    """Only sources in Python set this field and those below."""
    host: str | None = None
    max_attempts: int | None = None


@dataclass(frozen=True)
class InputFile:
    """A file to read jobs from. Nothing is opened before `entries` is iterated."""

    path: str
    """`-` is standard input."""
    format: InputFormat

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return STANDARD_INPUT if self.path == "-" else self.path

    @property
    def rereadable(self) -> bool:
        """Whether it can be read a second time: a pipe cannot."""
        return is_rereadable(self.path)

    @property
    def fingerprint(self) -> str:
        """The same for the same file, whatever it holds."""
        return self.path if self.path == "-" else str(Path(self.path).resolve())

    def entries(self) -> Iterator[InputEntry]:
        """Yield every job of the file, in order. Raise `InputFileError` for the first line that is not a job."""
        read = _url_entry if self.format is InputFormat.URLS else _job_entry
        for number, line in self._lines():
            try:
                entry = read(line)
            except ValueError as error:
                raise InputFileError(f"{self.name}, line {number}: {error}") from error
            if entry is not None:
                yield entry

    def check(self) -> int:
        """Read the file and return the number of jobs. Raise `InputFileError` as `entries` does, or if it is 0."""
        return sum(1 for _ in self.entries()) or self.refuse_empty()

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a file without jobs."""
        fix = (
            "Put one URL on each line; lines that start with # do not count."
            if self.format is InputFormat.URLS
            else "Put one JSON object on each line."
        )
        raise InputFileError(f"There are no jobs in {self.name}. {fix}")

    def _lines(self) -> Iterator[tuple[int, str]]:
        try:
            with open_bytes(self.path) as file:
                number = 0
                while raw := file.readline(LONGEST_LINE + 1):
                    number += 1
                    if len(raw) > LONGEST_LINE:
                        raise InputFileError(
                            f"{self.name}, line {number} is longer than {LONGEST_LINE:,} bytes. Put one job on a line."
                        )
                    if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                        raise InputFileError(f"{self.name} is UTF-16 text. Save it as UTF-8.")
                    try:
                        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                    except UnicodeDecodeError as error:
                        raise InputFileError(
                            f"{self.name}, line {number} is not UTF-8 text: {error.reason} at byte {error.start + 1}. "
                            "Save the file as UTF-8."
                        ) from error
                    yield number, text.strip(string.whitespace)
        except OSError as error:
            raise InputFileError(f"{self.name} cannot be read: {error.strerror or error}.") from error


def is_rereadable(path: str) -> bool:
    """Return whether the file can be read twice. True for a missing file, whose first reading raises an error."""
    if path == "-":
        return False
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def open_bytes(path: str) -> BinaryIO:
    """Open the file, or standard input for `-`. Raise `OSError` if it cannot be opened."""
    if path == "-":
        # A duplicate, so that closing it does not close the process's standard input.
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return Path(path).open("rb")


def _url_entry(line: str) -> InputEntry | None:
    if not line.strip() or line.startswith("#"):
        return None
    return InputEntry(payload={"url": check_url(line)})


def check_url(text: str) -> str:
    """Return the text if it is a URL, else raise `ValueError`."""
    if not _URL.match(text):
        hint = f" Did you mean https://{text} ?" if re.fullmatch(r"[\w-]+(\.[\w-]+)+(/\S*)?", text) else ""
        raise ValueError(f"'{_short(text)}' is not a URL.{hint}")
    try:
        _ = urlsplit(text).port  # checks what the expression above does not: brackets and the port
    except ValueError as error:
        raise ValueError(f"'{_short(text)}' is not a URL: {error}.") from None
    return text


def _job_entry(line: str) -> InputEntry | None:
    if not line:
        return None
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        fault = str(error).removeprefix("JSON is malformed: ")
        raise ValueError(f"not JSON: {fault}. {_quoted(line)}") from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep.") from error
    if not isinstance(value, dict):
        raise ValueError(f"a job is a JSON object, {{…}}. {_quoted(line)}")  # noqa: TRY004
    if "payload" not in value:
        return InputEntry(payload=value)
    if len(value) == 1 and isinstance(value["payload"], dict):
        # Most files have nothing else, and there may be millions of lines.
        return InputEntry(payload=value["payload"])
    unknown = [name for name in value if name != "payload" and name not in _BESIDE_PAYLOAD]
    if unknown and not _wraps(value):
        return InputEntry(payload=value)
    if unknown:
        near = difflib.get_close_matches(unknown[0], _BESIDE_PAYLOAD, n=1)
        raise ValueError(
            f"unknown field '{_short(unknown[0])}' beside 'payload'"
            + (f"; did you mean '{near[0]}'? Known are" if near else "; known are")
            + f" {', '.join(_BESIDE_PAYLOAD)}. "
            'If the whole line is the payload itself, wrap it as {"payload": …}.'
        )
    return _unwrapped(value)


def _wraps(value: JsonObject) -> bool:
    """Return whether an object wraps a payload, rather than being a payload with a field called `payload`."""
    return isinstance(value["payload"], dict) or any(name in value for name in _BESIDE_PAYLOAD)


def _unwrapped(value: JsonObject) -> InputEntry:
    fields = {name: given for name, given in value.items() if given is not None or name == "payload"}
    for name, (kind, allowed) in _TAKES.items():
        # Python counts True as an int, but JSON does not.
        if name in fields and (not isinstance(fields[name], kind) or isinstance(fields[name], bool)):
            given = _short(msgspec.json.encode(fields[name]).decode())
            raise ValueError(f"{name} must be {allowed}, not {given}.")
    if abs(fields.get("priority", 0)) > _LARGEST_PRIORITY:
        raise ValueError(f"priority must be between -{_LARGEST_PRIORITY:,} and {_LARGEST_PRIORITY:,}.")
    if fields.get("key") == "":
        raise ValueError("the key is empty. Leave it out to derive one from the payload.")
    if "not_before" in fields:
        fields["not_before"] = instant(fields["not_before"])
    return InputEntry(**fields)


def instant(value: object) -> float:
    """Return seconds since 1970 for such a number, or for an ISO date and time (UTC if it has no time zone)."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LATEST_INSTANT:
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(
            f"not_before cannot be '{_short(str(value))}': "
            "it is a time such as 2030-01-31T08:00:00Z, or seconds since 1970."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _quoted(line: str) -> str:
    return f'The line is: "{_short(line)}".'


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
