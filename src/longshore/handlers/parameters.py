"""Declared parameters: the values that a handler takes from the payload, validated before it runs.

There are two forms: one pydantic model for the whole payload; or each parameter takes the entry of its own name,
validated by its annotation, with its default if the entry is missing. Other entries of the payload are ignored.
"""

from __future__ import annotations

import inspect
import reprlib
import typing
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from longshore.errors import HandlerFileError, ValidationError
from longshore.stored import JsonObject
from longshore.url import mask_urls

# Imported only if parameters are declared: a worker whose handlers take `job` and `kit` need not load pydantic.
if TYPE_CHECKING:
    import pydantic
    from pydantic_core import ErrorDetails


class Parameters(Protocol):
    """The declared parameters of a handler."""

    def take(self, payload: JsonObject) -> dict[str, object]:
        """Return the declared arguments by name. Raises `ValidationError`, which names all faults at once."""

    def schema(self) -> JsonObject:
        """Return the payload that they take, as JSON Schema. A type that JSON Schema cannot describe takes anything."""


class ModelParameter:
    """One model for the whole payload, passed to one parameter; only validated if there is no parameter for it."""

    def __init__(self, kind: str, model: type[pydantic.BaseModel], name: str | None) -> None:
        self._kind = kind
        self._model = model
        self._name = name

    def take(self, payload: JsonObject) -> dict[str, object]:
        import pydantic

        try:
            value = self._model.model_validate(payload)
        except pydantic.ValidationError as error:
            _refuse(self._kind, (_fault(detail) for detail in error.errors()))
        return {} if self._name is None else {self._name: value}

    def schema(self) -> JsonObject:
        import pydantic

        return _schema_of(pydantic.TypeAdapter(self._model)) or {"type": "object"}


class NamedParameters:
    """Parameters that each take the payload's entry of their name."""

    def __init__(self, kind: str, rules: dict[str, pydantic.TypeAdapter[Any]], required: frozenset[str]) -> None:
        self._kind = kind
        self._rules = rules
        self._required = required

    def take(self, payload: JsonObject) -> dict[str, object]:
        import pydantic

        taken = {}
        faults = []
        for name, rule in self._rules.items():
            if name in payload:
                try:
                    taken[name] = rule.validate_python(payload[name])
                except pydantic.ValidationError as error:
                    faults += [_fault(detail, name) for detail in error.errors()]
            elif name in self._required:
                faults.append(f"{name}: missing")
        if faults:
            _refuse(self._kind, faults)
        return taken

    def schema(self) -> JsonObject:
        properties = {name: _schema_of(rule) for name, rule in self._rules.items()}
        shared: JsonObject = {}
        for each in properties.values():
            shared |= each.pop("$defs", {})
        schema = {"type": "object", "properties": properties, "required": sorted(self._required)}
        return {**schema, "$defs": shared} if shared else schema


def read_parameters(
    kind: str,
    function: Callable[..., object],
    declared: Mapping[str, inspect.Parameter],
    model: type[pydantic.BaseModel] | None,
    names: dict[str, object] | None,
) -> Parameters:
    """Return the declared parameters of a function. Raises `HandlerFileError` if the declaration is invalid."""
    if model is not None:
        if not _is_model(model):
            raise HandlerFileError(f"The handler of '{kind}' has params={model!r}. Give it a pydantic model class.")
        if len(declared) > 1:
            raise HandlerFileError(
                f"The handler of '{kind}' declares params={model.__name__} and the parameters {', '.join(declared)}. "
                "The model takes the whole payload: keep one parameter for it."
            )
        return ModelParameter(kind, model, next(iter(declared), None))
    hints = _hints(kind, function, declared, names)
    if len(hints) == 1:
        ((name, hint),) = hints.items()
        if _is_model(hint):
            return ModelParameter(kind, hint, name)
    required = frozenset(name for name, p in declared.items() if p.default is p.empty)
    return NamedParameters(kind, {name: _rule(kind, name, hint) for name, hint in hints.items()}, required)


def _is_model(hint: Any) -> bool:
    import pydantic

    return isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def _hints(
    kind: str,
    function: Callable[..., object],
    declared: Mapping[str, inspect.Parameter],
    names: dict[str, object] | None,
) -> dict[str, Any]:
    # Only the declared ones: `job` and `kit` may be annotated with names that are imported only for type checkers.
    written = {name: p.annotation for name, p in declared.items() if p.annotation is not p.empty}
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        read = typing.get_type_hints(SimpleNamespace(__annotations__=written), scope, names, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise HandlerFileError(f"The handler of '{kind}' has an annotation that cannot be read: {error}.") from error
    return {name: read.get(name, Any) for name in declared}


def _rule(kind: str, name: str, hint: Any) -> pydantic.TypeAdapter[Any]:
    import pydantic

    try:
        return pydantic.TypeAdapter(hint)
    except pydantic.errors.PydanticUserError as error:
        raise HandlerFileError(
            f"The handler of '{kind}' declares '{name}: {getattr(hint, '__name__', hint)}', "
            "which a payload cannot hold. "
            "Use types that JSON has, or a pydantic model."
        ) from error


def _schema_of(rule: pydantic.TypeAdapter[Any]) -> JsonObject:
    import pydantic

    try:
        return rule.json_schema()
    except (pydantic.errors.PydanticInvalidForJsonSchema, pydantic.errors.PydanticUserError):
        return {}


def _fault(detail: ErrorDetails, *above: str) -> str:
    where = ".".join(str(part) for part in (*above, *detail["loc"])) or "payload"
    if detail["type"] == "missing":
        return f"{where}: missing"
    given = mask_urls(reprlib.repr(detail["input"]))
    what = detail["msg"]
    return f"{where}: {what[:1].lower()}{what[1:]} (it is {given})"


def _refuse(kind: str, faults: Iterable[str]) -> NoReturn:
    # Without the pydantic error as the cause, which would repeat the payload in every log.
    raise ValidationError(f"The payload is not what '{kind}' takes. {'; '.join(faults)}") from None
