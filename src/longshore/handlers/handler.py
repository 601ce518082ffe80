"""A handler: the user's function for one kind of job, with the limits of its attempts.

The function receives what its parameters name: `job` and `kit` are passed as they are, all others are declared
parameters (see `longshore.handlers.parameters`). A function that takes only `job` and `kit` is called directly.
"""

from __future__ import annotations

import functools
import inspect
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec

from longshore.errors import HandlerFileError, UsageError
from longshore.job import checked_identity

if TYPE_CHECKING:
    from pydantic import BaseModel

    from longshore.handlers.class_handler import ClassInstance
    from longshore.handlers.kit import Kit
    from longshore.handlers.parameters import Parameters
    from longshore.job import Job
    from longshore.scrape.block_pages import BlockPage
    from longshore.scrape.records.emission import Keep
    from longshore.stored import JsonObject

P = ParamSpec("P")
R = TypeVar("R")

Returned: TypeAlias = Any
"""The return value of a handler's function: a value, or an awaitable of one if the handler's `is_async` is true."""

DEFAULT_TIMEOUT = timedelta(seconds=300)
DEFAULT_BACKOFF = 1.0
"""Seconds before the first retry."""
LONGEST_BACKOFF = 300.0
"""The longest wait before a retry (seconds)."""

_MOST_RETRIES = 1_000_000

GIVEN = frozenset({"job", "kit"})
"""Parameters that the worker passes; all others are declared and come from the payload."""


class AttemptLimits(msgspec.Struct, frozen=True):
    """The duration and memory of one attempt, and the number and spacing of retries, as a handler declares them."""

    timeout: float | timedelta = DEFAULT_TIMEOUT
    retries: int | None = None
    backoff: float = DEFAULT_BACKOFF
    memory: str | int | None = None


class PageRules(msgspec.Struct, frozen=True):
    """How the pages of a handler are fetched and judged, as the handler declares it."""

    robots: bool | None = None
    block_pages: Sequence[BlockPage] = ()


class RecordRules(msgspec.Struct, frozen=True):
    """The models of a handler's records and the filter on them, as the handler declares them."""

    emits: Mapping[str, type[BaseModel]] | None = None
    keep: Keep | None = None


_DEFAULT_LIMITS = AttemptLimits()
_ANY_RECORDS = RecordRules()
_ANY_PAGES = PageRules()


class Handler:
    """A function that handles one kind of job. It can still be called like the plain function."""

    kind: str
    function: Callable[..., object]
    is_async: bool
    timeout: timedelta
    """How long one attempt may take."""
    retries: int | None
    """How often a failed job is retried; None leaves it to the job's own limit."""
    memory: int | None
    """How many bytes of memory the process of a plain function may use; None for the machine's default."""
    emits: Mapping[str, type[BaseModel]]
    """The model of each kind of record; if empty, every record is accepted."""
    keep: Keep | None
    """The filter on records: called with a record and its kind; False or a reason rejects the record."""
    robots: bool | None
    """Whether robots.txt is obeyed; None leaves it to the settings."""
    block_pages: tuple[BlockPage, ...]
    """Pages that are refusals whatever their status says, besides those of the settings."""
    identity: tuple[str, ...] | None
    """The payload fields that make jobs of this kind different; None for the URL, or the whole payload without one."""
    identities: Mapping[str, tuple[str, ...]]
    """The declared identities of all kinds in its file, for the follow-on jobs that it makes."""
    instance: ClassInstance | None
    """For a method of a `Worker` class: its object."""
    invoke: Callable[[Job, Kit], Returned]
    """Calls the function with its arguments. Returns its value, or an awaitable of it if `is_async`."""

    def __init__(
        self,
        kind: str,
        function: Callable[..., object],
        *,
        limits: AttemptLimits = _DEFAULT_LIMITS,
        params: type[BaseModel] | None = None,
        records: RecordRules = _ANY_RECORDS,
        pages: PageRules = _ANY_PAGES,
        identity: Sequence[str] | None = None,
        names: dict[str, object] | None = None,
    ) -> None:
        """Check the declaration. `names` are local names for annotations written as text, besides the globals.

        Raises `HandlerFileError`.
        """
        if not isinstance(kind, str) or not kind:
            raise HandlerFileError('A handler needs the kind of job it handles. Write @handler("page").')
        functools.update_wrapper(self, function)
        self.kind = kind
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.timeout = _checked_timeout(kind, limits.timeout)
        self.retries = _checked_retries(kind, limits.retries)
        self._backoff = _checked_backoff(kind, limits.backoff)
        self.memory = _checked_memory(kind, limits.memory, is_async=self.is_async)
        self.emits = _checked_emits(kind, records.emits)
        self.keep = _checked_keep(kind, records.keep)
        if pages.robots is not None and not isinstance(pages.robots, bool):
            raise HandlerFileError(f"The handler of '{kind}' has robots={pages.robots!r}. Give it True or False.")
        self.robots = pages.robots
        self.block_pages = _checked_block_pages(kind, pages.block_pages)
        self.identity = _checked_identity(kind, identity)
        self.identities = {} if self.identity is None else {kind: self.identity}
        self.instance = None
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
        """Return the keyword arguments for the function.

        Raises `ValidationError`, which names all faults of the payload at once.
        """
        given: dict[str, object] = {"job": job, "kit": kit}
        arguments = {name: given[name] for name in self._signature if name in GIVEN}
        if self._declares:
            arguments |= self.prepare().take(job.payload)
        return arguments

    def prepare(self) -> Parameters:
        """Read the declared parameters, so that a fault in them is found before the first job.

        Raises `HandlerFileError`.
        """
        if self._prepared is None:
            from longshore.handlers.parameters import read_parameters

            declared = {name: p for name, p in self._signature.items() if name not in GIVEN}
            self._prepared = read_parameters(self.kind, self.function, declared, self._params, self._names)
        return self._prepared

    def payload_schema(self) -> JsonObject:
        """Return the payload that this handler takes, as JSON Schema; any object if it declares no parameters."""
        return self.prepare().schema() if self._declares else {"type": "object"}

    def retry_in(self, attempt: int) -> timedelta:
        """Return the wait after this attempt failed: it doubles each time, up to five minutes.

        A random jitter subtracts up to a quarter, so that jobs that failed together are not retried together.
        """
        return retry_delay(self._backoff, attempt)

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
    """A handler made by `@handler`, with the types of the function's parameters and return value."""

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


class Declare(Protocol):
    """The decorator that `@handler(...)` returns: it keeps the types of the function's parameters and return value."""

    def __call__(self, function: Callable[P, R], /) -> FunctionHandler[P, R]: ...


def handler(
    kind: str,
    *,
    timeout: float | timedelta = DEFAULT_TIMEOUT,
    retries: int | None = None,
    backoff: float = DEFAULT_BACKOFF,
    memory: str | int | None = None,
    params: type[BaseModel] | None = None,
    emits: Mapping[str, type[BaseModel]] | None = None,
    keep: Keep | None = None,
    robots: bool | None = None,
    block_pages: Sequence[BlockPage] = (),
    identity: Sequence[str] | None = None,
) -> Declare:
    """Make a function the handler of a kind of job.

    `timeout` (seconds or a timedelta) limits one attempt; `retries` is how often a failed job is retried, by default as
    often as the job itself allows; `backoff` is the seconds before the first retry; `memory` ("500MB", or bytes) is how
    much the process of a plain function may use before it is ended, by default half of the machine's memory.

    `params` is a pydantic model that the payload must satisfy. `emits` names the pydantic model of each kind of record,
    and `keep` is a filter: called with a record and its kind, it returns True, or False or a reason to reject it.
    `robots=False` ignores robots.txt. `block_pages` says which pages are refusals although their status is ordinary
    (`[BlockPage(title="Robot Check")]`). `identity` names the payload fields that make two jobs of this kind different
    jobs, by default the URL alone.
    """
    if callable(kind):
        raise HandlerFileError('A handler needs the kind of job it handles. Write @handler("page"), not @handler.')
    frame = sys._getframe(1)
    # Inside a function, annotations written as text may use its local names, which are not accessible later.
    names = None if frame.f_locals is frame.f_globals else dict(frame.f_locals)

    def declare(function: Callable[P, R]) -> FunctionHandler[P, R]:
        return FunctionHandler(
            kind,
            function,
            limits=AttemptLimits(timeout, retries, backoff, memory),
            params=params,
            records=RecordRules(emits, keep),
            pages=PageRules(robots, block_pages),
            identity=identity,
            names=names,
        )

    return declare


def retry_delay(backoff: float, attempt: int) -> timedelta:
    """Return the wait after an attempt failed; `backoff` seconds after the first (see `Handler.retry_in`)."""
    longest = min(backoff * 2 ** min(attempt - 1, 30), LONGEST_BACKOFF)
    return timedelta(seconds=longest * random.uniform(0.75, 1.0))  # noqa: S311 (no secret hangs on it)


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


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_LEAST_MEMORY = 50_000_000
"""A process that has imported a handler file uses about as much."""


def _checked_memory(kind: str, memory: str | int | None, *, is_async: bool) -> int | None:
    if memory is None:
        return None
    wrong = f"The handler of '{kind}' has memory={memory!r}."
    if is_async:
        raise HandlerFileError(
            f"{wrong} Async handlers share the process of the worker, which cannot be ended for one of them. Make it a "
            "plain `def`, which has a process of its own."
        )
    written = _SIZE.fullmatch(str(memory).strip()) if isinstance(memory, str | int) else None
    if written is None or isinstance(memory, bool):
        raise HandlerFileError(f'{wrong} Give it a size such as "500MB" or "2GB", or bytes.')
    step = 1024 if written[3] else 1000
    size = int(float(written[1]) * step ** " KMGT".index(written[2].upper() or " "))
    if size < _LEAST_MEMORY:
        raise HandlerFileError(f"{wrong} Give it at least {_LEAST_MEMORY // 10**6} MB, which a process needs to start.")
    return size


def _checked_emits(kind: str, emits: Mapping[str, type[BaseModel]] | None) -> dict[str, type[BaseModel]]:
    if emits is None:
        return {}
    # A check without importing pydantic, which takes long: most handlers declare no records.
    if not isinstance(emits, Mapping) or not all(
        isinstance(name, str) and isinstance(model, type) and hasattr(model, "model_validate")
        for name, model in emits.items()
    ):
        raise HandlerFileError(
            f"The handler of '{kind}' has emits={emits!r}. Give it the pydantic model of each kind of record: "
            'emits={"item": Item}.'
        )
    return dict(emits)


def _checked_keep(kind: str, keep: Keep | None) -> Keep | None:
    if keep is not None and not callable(keep):
        raise HandlerFileError(f"The handler of '{kind}' has keep={keep!r}. Give it a function of record and kind.")
    return keep


def _checked_block_pages(kind: str, block_pages: Sequence[BlockPage]) -> tuple[BlockPage, ...]:
    if not block_pages:
        return ()
    from longshore.scrape.block_pages.rule import checked_block_pages

    try:
        return checked_block_pages(block_pages)
    except UsageError as error:
        raise HandlerFileError(f"The handler of '{kind}' has a wrong block_pages. {error}") from error


def _checked_identity(kind: str, identity: Sequence[str] | None) -> tuple[str, ...] | None:
    try:
        return None if identity is None else checked_identity(identity)
    except UsageError as error:
        raise HandlerFileError(f"The handler of '{kind}' has identity={identity!r}. {error}.") from error


def _checked_signature(kind: str, function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(function).parameters
    for parameter in signature.values():
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise HandlerFileError(
                f"The handler of '{kind}' has the parameter '{parameter}'. "
                "Its parameters are passed by name: job, kit, or names of entries of the payload."
            )
    return dict(signature)
