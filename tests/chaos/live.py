"""The processes of a trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.chaos.recording import process_name
from tests.services.warm import Started


@dataclass
class Live:
    """A process of a trial that runs beside the conductor."""

    role: str
    started: Started
    queue: str
    began: int
    log: Path
    until_done: str = ""
    brings: str = ""
    """A transition that it brings about before it ends, if it takes seconds until then."""
    then: Callable[[int], None] = field(default=lambda code: None)
    """Called with its exit code."""

    @property
    def pid(self) -> int:
        return self.started.pid

    @property
    def name(self) -> str:
        """Its name in the histories."""
        return process_name(self.role, self.pid)

    @property
    def said(self) -> Path:
        """What it writes to its standard output."""
        return self.log.with_suffix(".out")

    def names(self) -> list[str]:
        """Return its name, and those of the workers that it supervises."""
        if self.role != "fleet":
            return [self.name]
        try:
            members = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            members = []
        return [self.name, *(process_name(self.role, each.pid) for each in members)]


@dataclass(frozen=True)
class Order:
    """A command of a person or a program."""

    role: str
    arguments: Sequence[str]
    stdin: str = ""
    after: float = 0.0
    """Seconds between the end of the command before it and its own beginning."""
