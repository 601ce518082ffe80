"""Results of calls that the attempts of a process share for a time: `kit.cache`."""

from __future__ import annotations

import inspect
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from longshore.errors import ProcessingError

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 10_000
"""The most results that are kept; the oldest go first."""


class CallCache:
    """Results of calls by function and arguments, each with the time when it was made. For several threads."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: OrderedDict[Hashable, tuple[float, object]] = OrderedDict()
        self._lock = threading.Lock()

    def call(self, ttl: float, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of an equal call that is less than `ttl` seconds old; else call the function and keep its
        result. An error is raised and not kept.

        A coroutine is awaited by the caller, as if the function had been called. Two equal calls at the same time are
        both made.
        """
        key = _key(function, args, kwargs)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and self._now() - kept[0] < ttl:
            value = kept[1]
            return cast("R", _ready(value) if inspect.iscoroutinefunction(function) else value)
        result = function(*args, **kwargs)
        if inspect.isawaitable(result):
            return cast("R", self._awaited(key, result))
        self._keep(key, result)
        return result

    async def _awaited(self, key: Hashable, result: Awaitable[object]) -> object:
        value = await result
        self._keep(key, value)
        return value

    def _keep(self, key: Hashable, value: object) -> None:
        with self._lock:
            self._kept[key] = (self._now(), value)
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)


async def _ready(value: object) -> object:
    return value


def _key(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Hashable:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if getattr(function, "__closure__", None):
        raise ProcessingError(
            f"kit.cache cannot tell calls of {name} apart, because it uses variables of the function around it. "
            "Define it at the top of the file, and pass it what it needs as arguments.",
            retryable=False,
        )
    owner = getattr(function, "__self__", None)
    # The tools of the kit are made for each attempt, and are the same for all.
    whose = type(owner) if owner is None or type(owner).__module__.startswith("longshore.") else owner
    key = (getattr(function, "__module__", ""), name, whose, args, tuple(sorted(kwargs.items())))
    try:
        hash(key)
    except TypeError as error:
        raise ProcessingError(
            f"kit.cache cannot compare the arguments of {name}: {error}. Pass text, numbers or tuples.", retryable=False
        ) from error
    return key


_CACHES: WeakKeyDictionary[object, CallCache] = WeakKeyDictionary()


def cache_of(tools: object) -> CallCache:
    """Return the cache of the attempts that share these tools."""
    return _CACHES.setdefault(tools, CallCache())
