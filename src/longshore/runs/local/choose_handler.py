"""Which handler of a file is meant."""

from __future__ import annotations

from pathlib import Path

from longshore.errors import UnknownKindError, UsageError
from longshore.handlers.handler import Handler


def choose_handler(handlers: dict[str, Handler], kind: str | None, file: Path) -> Handler:
    """Return the handler of this kind, or the only handler of the file if no kind is given."""
    if kind is None and len(handlers) == 1:
        return next(iter(handlers.values()))
    if kind is None:
        raise UsageError(f"{file} has several handlers. Say which with --kind: {', '.join(sorted(handlers))}.")
    if kind not in handlers:
        raise UnknownKindError(f"{file} has no handler for '{kind}'. It handles: {', '.join(sorted(handlers))}.")
    return handlers[kind]


def check_kinds(wanted: frozenset[str], known: frozenset[str], file: Path) -> None:
    """Raise `UnknownKindError` if a kind has no handler in the file."""
    if missing := sorted(wanted - known):
        raise UnknownKindError(f"{file} has no handler for '{missing[0]}'. It handles: {', '.join(sorted(known))}.")
