"""What is checked, and what is found."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from longshore.errors import LongshoreError
from longshore.observe.masking import mask_text
from longshore.settings import Settings


class CheckVerdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    """Work can begin, and someone should know."""
    FAIL = "fail"
    """Work must not begin like this."""
    SKIPPED = "skipped"
    """There was nothing to check, or it could not be known."""


class Finding(msgspec.Struct, frozen=True):
    """What one check found."""

    name: str
    verdict: CheckVerdict
    what: str
    """One sentence, without secrets."""
    fix: str = ""
    """What to do, where something is to be done."""


class CheckPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to be started, as far as it is known."""

    said: Mapping[str, Any] = {}
    """Settings that the command line named; the others are found as always."""
    folder: Path = Path()
    """Where it is to run."""
    handler_file: Path | None = None
    table: Path | None = None
    """A fixed table of who has which partitions."""
    partitions: tuple[str, ...] | None = None
    """The partitions that must each have a worker; None where they are not known."""
    at_work: tuple[str, ...] = ()
    """Partitions there are jobs of: a fixed table must hold them, and may hold more."""
    asked_for: tuple[str, ...] = ()
    """Partitions that the work is limited to: a fixed table must hold them, and may hold more."""
    needs_dotenv: bool = False
    """Whether a missing `.env` is a fault, where nothing else names the queue."""


class LoadedHandlers(msgspec.Struct, frozen=True):
    """How the import of a handler file went."""

    kinds: tuple[str, ...] = ()
    browsers: tuple[str, ...] = ()
    """The browser libraries that it brought in."""
    partitions: tuple[str, ...] = ()
    """Those it names in `PARTITIONS`, where it does."""
    fault: str = ""


@dataclass(frozen=True)
class CheckContext:
    """What the checks look at."""

    plan: CheckPlan
    settings: Settings | None
    """None where they cannot be read at all."""
    faults: tuple[str, ...] = ()
    """What is wrong with the settings. Those at fault have their default here."""
    loading: asyncio.Future[LoadedHandlers | None] = field(default_factory=asyncio.Future)
    """The import of the handler file, under way."""

    async def loaded(self) -> LoadedHandlers | None:
        """How that import went; None where no file is named."""
        # Shielded: two checks wait for it, and one that is out of time must not take it from the other.
        return await asyncio.shield(self.loading)


def cause_and_fix(error: LongshoreError) -> tuple[str, str]:
    """What an error says, without secrets: the cause, and the fix where it is told apart."""
    cause, _, fix = mask_text(str(error)).partition(" Fix: ")
    return cause, f"{fix[:1].upper()}{fix[1:].rstrip('.')}." if fix else ""


class NoSettingsError(LongshoreError):
    """A check needs a setting, and none can be read."""


def known(scene: CheckContext) -> Settings:
    """The settings, for a check that cannot do without."""
    if scene.settings is None:
        raise NoSettingsError("Not checked: the settings cannot be read.")
    return scene.settings
