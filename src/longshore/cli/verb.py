"""A verb as Typer makes it, but for its usage line and for when Pydantic is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer._coercion import build_runtime_param
from typer._param_types import coerce_cli_path
from typer.core import TyperCommand


class Verb(TyperCommand):
    """A verb whose usage names what it needs as it is typed: FILE, not {FILE}."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage line."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


def coerce_on_use(parameter: Any) -> None:
    """Let Typer make the coercion of this parameter only for a value that is none of its type yet.

    It makes one for every parameter, given or not, with Pydantic, whose import takes longer than most commands.
    """
    parameter._runtime_param = _OnUse()


class _OnUse:
    """In the place of Typer's own coercion, with the same results: it is asked where what is given needs more."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value in the parameter's type. Typer's own error for one that has no place in it."""
        descriptor = param.type_descriptor
        kind, info = descriptor.annotation, descriptor.parameter_info
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if info.parser is None and not descriptor.is_ranged:
            if kind is Path:
                return coerce_cli_path(Path(value), info, path_type=Path, param=param, ctx=ctx)
            # As it was typed; or a default.
            if type(value) is kind or (kind == list[str] and not isinstance(value, str)):
                return value
        return build_runtime_param(descriptor).coerce(value, param=param, ctx=ctx)
