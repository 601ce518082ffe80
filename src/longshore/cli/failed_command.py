"""The last command that failed in a folder, for the report that `longshore doctor` writes for support."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from longshore.masking import mask_text
from longshore.system.atomic_file import write_atomically

_FOLDER, _NAME = ".longshore", "failed_command.json"
_LONGEST = 2000


class FailedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that ended with an error. Secrets are masked."""

    at: str
    command: str
    exit_code: int
    message: str


def note_failed_command(arguments: Sequence[str], exit_code: int, message: str) -> None:
    """Keep a command that failed, instead of the one before. Only in a folder in which Longshore has worked."""
    folder = Path(_FOLDER)
    if not folder.is_dir():
        return
    from longshore.observe.log_file import command_line

    failed = FailedCommand(
        at=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        command=command_line(arguments)[:_LONGEST],
        exit_code=exit_code,
        message=mask_text(message)[:_LONGEST],
    )
    with suppress(OSError):
        write_atomically(folder / _NAME, msgspec.json.encode(failed), private=True)


def read_failed_command(folder: Path) -> FailedCommand | None:
    """Return the last command that failed in this folder; None if none is known."""
    try:
        return msgspec.json.decode((folder / _FOLDER / _NAME).read_bytes(), type=FailedCommand)
    except (OSError, msgspec.DecodeError):
        return None
