"""A Typer command with a plainer usage line, which imports Pydantic only when it must.

docs/decisions/0010-commands-are-loaded-when-used.md says why.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from longshore.settings.table import OLD_FLAGS


class Verb(TyperCommand):
    """A verb whose usage line names its arguments as FILE, not {FILE}."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; flags of older systems are read as the current ones."""
        known = {flag for option in self.params for flag in option.opts}
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(_current(each, known) for each in args[:end]), *args[end:]])


def _current(argument: str, known: set[str]) -> str:
    """Return an argument with the current name of its flag, if it is an old one of a flag in `known`."""
    flag, sign, value = argument.partition("=")
    current = OLD_FLAGS.get(flag)
    return argument if current is None or current not in known or flag in known else f"{current}{sign}{value}"


def coerce_on_use(parameter: Any) -> None:
    """Let Typer coerce the value of this parameter only if it does not have its type yet.

    Typer coerces every parameter, given or not, with Pydantic, whose import takes a quarter of the time of most
    commands. A parameter that asks for more than a type, or whose type Typer does not tell, is left as it is.
    """
    described = getattr(parameter, "type_descriptor", None)
    kind, info = getattr(described, "annotation", None), getattr(described, "parameter_info", None)
    if kind is None or info is None:
        return
    asks_more = any(getattr(info, name, None) for name in _ASKS_MORE)
    as_typer_does = parameter.process_value

    def process(ctx: Any, value: Any) -> Any:
        several = parameter.multiple or parameter.nargs == -1
        if value is None and not parameter.required:
            found: Any = () if several else None
        elif asks_more or (parameter.nargs != 1 and not several):
            return as_typer_does(ctx, value)
        elif several:
            if kind != list[str] or not value or not _are_words(value):
                return as_typer_does(ctx, value)
            found = list(value)
        elif type(value) is kind and kind in (str, int, bool):
            found = value
        elif kind is Path and isinstance(value, str | Path) and _may_be_read(value):
            found = Path(value)
        else:
            return as_typer_does(ctx, value)
        return found if parameter.callback is None else parameter.callback(ctx, parameter, found)

    parameter.process_value = process


_ASKS_MORE = ("parser", "click_type", "min", "max", "exists", "writable", "resolve_path", "path_type")
"""Typer's names for the conditions that an option may set for its value."""


def _are_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(type(each) is str for each in value)


def _may_be_read(path: str | Path) -> bool:
    # Typer itself refuses a path that exists and cannot be read.
    return not Path(path).exists() or os.access(path, os.R_OK)
