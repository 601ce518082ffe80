"""Which handler of a file is meant."""

from __future__ import annotations

from pathlib import Path

from longshore.errors import UnknownKindError, UsageError
from longshore.handlers.handler import Handler


def choose_handler(handlers: dict[str, Handler], kind: str | None, file: Path) -> Handler:
    """The handler that is meant: the one named, or the only one there is."""
    if kind is None and len(handlers) == 1:
        return next(iter(handlers.values()))
    if kind is None:
        raise UsageError(f"{file} has several handlers. Say which with --kind: {', '.join(sorted(handlers))}.")
    if kind not in handlers:
        raise UnknownKindError(f"{file} has no handler for '{kind}'. It handles: {', '.join(sorted(handlers))}.")
    return handlers[kind]


def check_kinds(wanted: frozenset[str], known: frozenset[str], file: Path) -> None:
    """`UnknownKindError` where a kind has no handler in the file."""
    if missing := sorted(wanted - known):
        raise UnknownKindError(f"{file} has no handler for '{missing[0]}'. It handles: {', '.join(sorted(known))}.")
