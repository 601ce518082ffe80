"""Find a handler for worker processes: in the file it is defined in, or only in this program."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from longshore.errors import HandlerFileError, UsageError
from longshore.handlers.class_handler import class_handlers
from longshore.handlers.handler import Handler
from longshore.handlers.load import load_handlers
from longshore.handlers.worker_class import Worker
from longshore.runs.local.choose_handler import choose_handler


@dataclass(frozen=True)
class HandlerPlace:
    """The handler that jobs are for, and how workers get it."""

    file: Path
    """The file that workers load; the name of the handler's module if there is none."""
    handler: Handler
    own_handlers: Mapping[str, Handler] | None = None
    """All handlers by kind, if only this program has them; None if workers load the file."""


def place_of(handlers: str | Path | Handler | type[Worker], kind: str | None) -> HandlerPlace:
    """Return the place of the handler of this kind: in a file, or in this program only.

    A handler or class at the top level of a Python file is loaded from that file again, with all others of the file.
    Otherwise those beside it count: the handlers of the notebook, or only itself if it was made inside a function.
    """
    if isinstance(handlers, str | Path):
        file = Path(handlers)
        return HandlerPlace(file, choose_handler(load_handlers(file), kind, file))
    if isinstance(handlers, Handler):
        given, defined = {handlers.kind: handlers}, handlers.function.__module__
    elif isinstance(handlers, type) and issubclass(handlers, Worker):
        given, defined = class_handlers(handlers), handlers.__module__
    else:
        raise UsageError(
            f"A {type(handlers).__name__} is no handler. Give a handler file, a function with @handler, or a Worker "
            "class."
        )
    module = sys.modules.get(defined)
    beside = [] if module is None else list(vars(module).values())
    named = any(value is handlers for value in beside)
    file = Path(getattr(module, "__file__", None) or f"{defined}.py")
    chosen = choose_handler(given, kind, file)
    if named and _is_file(module):
        return HandlerPlace(file, choose_handler(load_handlers(file), chosen.kind, file))
    own = {each.kind: each for each in beside if isinstance(each, Handler)} if named else {}
    own |= given
    identities = {name: each.identity for name, each in own.items() if each.identity is not None}
    for each in own.values():
        _refuse_plain(each)
        each.prepare()
        each.identities = identities
    return HandlerPlace(file, chosen, own)


def _refuse_plain(handler: Handler) -> None:
    if not handler.is_async:
        raise HandlerFileError(
            f"The handler of '{handler.kind}' is a plain function that only this program has, and a plain handler runs "
            "in a process of its own, which could not import it. Write `async def`, or put it into a file and give "
            "that: longshore.run('handlers.py', …)."
        )


def _is_file(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and file.endswith(".py") and Path(file).is_file()
