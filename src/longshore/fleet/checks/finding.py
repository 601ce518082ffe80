"""The input of the checks, and their findings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from longshore.errors import LongshoreError
from longshore.masking import mask_text
from longshore.settings import Settings


class CheckVerdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    """Work can begin, but the user should know about it."""
    FAIL = "fail"
    """Work must not begin before this is fixed."""
    SKIPPED = "skipped"
    """There was nothing to check, or the check could not tell."""


class Finding(msgspec.Struct, frozen=True):
    """The finding of one check."""

    name: str
    verdict: CheckVerdict
    what: str
    """One sentence, without secrets."""
    fix: str = ""
    """How to fix it; empty if there is nothing to fix."""


class CheckPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The work that is about to be started, as far as it is known."""

    given: Mapping[str, Any] = {}
    """Settings from the command line; the others are resolved as usual."""
    folder: Path = Path()
    """The folder in which the work will run."""
    handler_file: Path | None = None
    python: str | None = None
    """The interpreter that imports the handler file; None for the one of this process."""
    table: Path | None = None
    """The file of a fixed table that assigns partitions to workers."""
    partitions: tuple[str, ...] | None = None
    """The partitions that must each have a worker; None if they are not known."""
    at_work: tuple[str, ...] = ()
    """Partitions that have jobs: a fixed table must contain them, and may contain more."""
    asked_for: tuple[str, ...] = ()
    """Partitions that the work is limited to: a fixed table must contain them, and may contain more."""
    needs_dotenv: bool = False
    """Whether a missing `.env` is a fault if nothing else names the queue."""


class LoadedHandlers(msgspec.Struct, frozen=True):
    """The result of importing a handler file."""

    kinds: tuple[str, ...] = ()
    browsers: tuple[str, ...] = ()
    """The browser libraries that it imported."""
    partitions: tuple[str, ...] = ()
    """The partitions that it names in `PARTITIONS`, if any."""
    fault: str = ""


@dataclass(frozen=True)
class CheckContext:
    """The data that the checks use."""

    plan: CheckPlan
    settings: Settings | None
    """None if they cannot be read at all."""
    faults: tuple[str, ...] = ()
    """The errors in the settings. A wrong setting has its default value in `settings`."""
    loading: asyncio.Future[LoadedHandlers | None] = field(default_factory=asyncio.Future)
    """The running import of the handler file."""

    async def loaded(self) -> LoadedHandlers | None:
        """Return the result of that import; None if no file is named."""
        # Shielded: two checks wait for it, and a timeout of one must not cancel it for the other.
        return await asyncio.shield(self.loading)


def cause_and_fix(error: LongshoreError) -> tuple[str, str]:
    """Return the cause and the fix from an error's message, without secrets; the fix may be empty."""
    cause, _, fix = mask_text(str(error)).partition(" Fix: ")
    return cause, f"{fix[:1].upper()}{fix[1:].rstrip('.')}." if fix else ""


class NoSettingsError(LongshoreError):
    """A check needs a setting, and the settings cannot be read."""


def known(context: CheckContext) -> Settings:
    """Return the settings. Raise `NoSettingsError` if they cannot be read."""
    if context.settings is None:
        raise NoSettingsError("Not checked: the settings cannot be read.")
    return context.settings
