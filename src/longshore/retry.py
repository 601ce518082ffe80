"""`@retry`: retry a function within one attempt at a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast, overload

from longshore.errors import LongshoreError

F = TypeVar("F", bound=Callable[..., object])

LONGEST_WAIT = 60.0
"""The longest wait between two calls (seconds)."""


@overload
def retry(function: F, /) -> F: ...


@overload
def retry(
    *, max_attempts: int = 3, backoff_factor: float = 2, exceptions: tuple[type[Exception], ...] = (Exception,)
) -> Callable[[F], F]: ...


def retry(
    function: F | None = None,
    /,
    *,
    max_attempts: int = 3,
    backoff_factor: float = 2,
    exceptions: tuple[type[Exception], ...] | type[Exception] = (Exception,),
) -> F | Callable[[F], F]:
    """Call a plain or async function again if it raises one of `exceptions`, up to `max_attempts` calls in all.

    The waits begin at one second and grow by `backoff_factor`, up to a minute, each with up to a second of random
    jitter. A Longshore error that is not retryable is not retried. The last error is raised unchanged. The waits count
    as the handler's time: its timeout ends them, too.
    """

    def is_retryable(error: Exception) -> bool:
        return isinstance(error, exceptions) and not (isinstance(error, LongshoreError) and not error.retryable)

    def decorate(decorated: F) -> F:
        # Imported on use, so that `import longshore` stays fast.
        import stamina

        again = stamina.retry(
            on=is_retryable,
            attempts=max_attempts,
            timeout=None,
            wait_initial=1.0,
            wait_max=LONGEST_WAIT,
            wait_jitter=1.0,
            wait_exp_base=backoff_factor,
        )
        return cast("F", again(decorated))

    if max_attempts < 1:
        raise ValueError(f"retry(max_attempts={max_attempts}): give it a whole number from 1 up")
    return decorate if function is None else decorate(function)
