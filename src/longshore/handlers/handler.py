"""A handler: the user's function for one kind of job, and how long and how often it may try.

The names of its parameters say what it wants: `job` and `kit` are given as they are, everything else is declared
(see `longshore.handlers.parameters`). A handler that only takes `job` and `kit` is called with nothing in between.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from longshore.errors import HandlerFileError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from longshore.handlers.kit import Kit
    from longshore.handlers.parameters import Parameters
    from longshore.job import Job
    from longshore.scrape.records.emission import Keep

P = ParamSpec("P")
R = TypeVar("R")

Returned: TypeAlias = Any
"""What a function returned: a value, or an awaitable of one if the handler is async, which only `is_async` tells."""

DEFAULT_TIMEOUT = timedelta(seconds=300)
DEFAULT_BACKOFF = 1.0
"""Seconds before the first retry."""
LONGEST_BACKOFF = 300.0
"""Seconds; no retry waits longer."""

_MOST_RETRIES = 1_000_000

GIVEN = frozenset({"job", "kit"})
"""Parameters that are given rather than declared."""


class Handler:
    """A function that handles one kind of job. Still callable like the function it was made of."""

    kind: str
    function: Callable[..., object]
    is_async: bool
    timeout: timedelta
    """How long one attempt may take."""
    retries: int | None
    """How often a failed job is tried again; None leaves it to the job's own limit."""
    emits: Mapping[str, type[BaseModel]]
    """What the records of each kind are; where none is named, every record is taken."""
    keep: Keep | None
    """Which records are kept: given a record and its kind, True or None; False or a reason rejects it."""
    robots: bool | None
    """Whether robots.txt is obeyed; None leaves it to the settings."""
    invoke: Callable[[Job, Kit], Returned]
    """Call the function with what it wants. Returns its value, or an awaitable of it where `is_async`."""

    def __init__(
        self,
        kind: str,
        function: Callable[..., object],
        *,
        timeout: float | timedelta = DEFAULT_TIMEOUT,
        retries: int | None = None,
        backoff: float = DEFAULT_BACKOFF,
        params: type[BaseModel] | None = None,
        emits: Mapping[str, type[BaseModel]] | None = None,
        keep: Keep | None = None,
        robots: bool | None = None,
        names: dict[str, object] | None = None,
    ) -> None:
        """`names` are what annotations written as text may refer to, beside the globals of the function."""
        if not isinstance(kind, str) or not kind:
            raise HandlerFileError('A handler needs the kind of job it handles. Write @handler("page").')
        functools.update_wrapper(self, function)
        self.kind = kind
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.timeout = _checked_timeout(kind, timeout)
        self.retries = _checked_retries(kind, retries)
        self._backoff = _checked_backoff(kind, backoff)
        self.emits = _checked_emits(kind, emits)
        if keep is not None and not callable(keep):
            raise HandlerFileError(f"The handler of '{kind}' has keep={keep!r}. Give it a function of record and kind.")
        self.keep = keep
        if robots is not None and not isinstance(robots, bool):
            raise HandlerFileError(f"The handler of '{kind}' has robots={robots!r}. Give it True or False.")
        self.robots = robots
        self._params = params
        self._names = names
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise HandlerFileError(f"The handler of '{kind}' yields. Let it return one value, such as a list.")
        self._signature = _checked_signature(kind, function)
        self._prepared: Parameters | None = None
        self.invoke = self._shortest_call()

    def __call__(self, *args: Any, **kwargs: Any) -> Returned:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Handler of '{self.kind}': {getattr(self.function, '__qualname__', self.function)}>"

    def arguments(self, job: Job, kit: Kit) -> dict[str, object]:
        """The keyword arguments the function is called with.

        Raises `ValidationError`, naming everything that is wrong with the payload at once.
        """
        given: dict[str, object] = {"job": job, "kit": kit}
        arguments = {name: given[name] for name in self._signature if name in GIVEN}
        if self._declares:
            arguments |= self.prepare().take(job.payload)
        return arguments

    def prepare(self) -> Parameters:
        """Read the declared parameters, so that a fault in them comes to light before any job does.

        Raises `HandlerFileError`.
        """
        if self._prepared is None:
            from longshore.handlers.parameters import read_parameters

            declared = {name: p for name, p in self._signature.items() if name not in GIVEN}
            self._prepared = read_parameters(self.kind, self.function, declared, self._params, self._names)
        return self._prepared

    def retry_in(self, attempt: int) -> timedelta:
        """How long to wait after this attempt failed: twice as long each time, up to five minutes.

        Up to a quarter is taken off by chance, so that jobs which failed together do not come back together.
        """
        longest = min(self._backoff * 2 ** min(attempt - 1, 30), LONGEST_BACKOFF)
        return timedelta(seconds=longest * random.uniform(0.75, 1.0))  # noqa: S311 (no secret hangs on it)

    @property
    def _declares(self) -> bool:
        return self._params is not None or not GIVEN.issuperset(self._signature)

    def _shortest_call(self) -> Callable[[Job, Kit], Returned]:
        function = self.function
        if not self._declares:
            if list(self._signature) == ["job", "kit"]:
                return function
            if list(self._signature) == ["job"]:
                return lambda job, _: function(job)
        return lambda job, kit: function(**self.arguments(job, kit))


class FunctionHandler(Handler, Generic[P, R]):
    """A handler made by `@handler`: its type says what the function takes and returns."""

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


class Declare(Protocol):
    """What `@handler(...)` decorates with: the handler takes what the function takes, and returns what it returns."""

    def __call__(self, function: Callable[P, R], /) -> FunctionHandler[P, R]: ...


def handler(
    kind: str,
    *,
    timeout: float | timedelta = DEFAULT_TIMEOUT,
    retries: int | None = None,
    backoff: float = DEFAULT_BACKOFF,
    params: type[BaseModel] | None = None,
    emits: Mapping[str, type[BaseModel]] | None = None,
    keep: Keep | None = None,
    robots: bool | None = None,
) -> Declare:
    """Make a function the handler of a kind of job.

    `timeout` (seconds or a timedelta) bounds one attempt; `retries` is how often a failed job is tried again, by
    default as often as the job itself allows; `backoff` is the seconds before the first retry; `params` is a pydantic
    model the payload must satisfy. `emits` names the pydantic model of each kind of record, and `keep` is a filter:
    called with a record and its kind, it returns True, or False or a reason to reject it. `robots=False` passes over
    robots.txt.
    """
    if callable(kind):
        raise HandlerFileError('A handler needs the kind of job it handles. Write @handler("page"), not @handler.')
    frame = sys._getframe(1)
    # Inside a function, annotations written as text may name what is local there; later it is out of reach.
    names = None if frame.f_locals is frame.f_globals else dict(frame.f_locals)

    def declare(function: Callable[P, R]) -> FunctionHandler[P, R]:
        return FunctionHandler(
            kind,
            function,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
            params=params,
            emits=emits,
            keep=keep,
            robots=robots,
            names=names,
        )

    return declare


def _checked_timeout(kind: str, timeout: float | timedelta) -> timedelta:
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        timeout = timedelta(seconds=timeout)
    if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
        raise HandlerFileError(f"The handler of '{kind}' has timeout={timeout!r}. Give it seconds above 0.")
    return timeout


def _checked_retries(kind: str, retries: int | None) -> int | None:
    if retries is not None and (type(retries) is not int or not 0 <= retries <= _MOST_RETRIES):
        raise HandlerFileError(
            f"The handler of '{kind}' has retries={retries!r}. Give it a whole number from 0 to {_MOST_RETRIES:,}."
        )
    return retries


def _checked_backoff(kind: str, backoff: float) -> float:
    if not isinstance(backoff, int | float) or isinstance(backoff, bool) or not backoff >= 0:
        raise HandlerFileError(f"The handler of '{kind}' has backoff={backoff!r}. Give it seconds from 0 up.")
    return float(backoff)


def _checked_emits(kind: str, emits: Mapping[str, type[BaseModel]] | None) -> dict[str, type[BaseModel]]:
    if emits is None:
        return {}
    # By what it can do: most handlers have none, and pydantic takes a while to import.
    if not isinstance(emits, Mapping) or not all(
        isinstance(name, str) and isinstance(model, type) and hasattr(model, "model_validate")
        for name, model in emits.items()
    ):
        raise HandlerFileError(
            f"The handler of '{kind}' has emits={emits!r}. Give it the pydantic model of each kind of record: "
            'emits={"item": Item}.'
        )
    return dict(emits)


def _checked_signature(kind: str, function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(function).parameters
    for parameter in signature.values():
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise HandlerFileError(
                f"The handler of '{kind}' has the parameter '{parameter}'. "
                "Its parameters are given by name: job, kit, or the names of what it takes from the payload."
            )
    return dict(signature)
