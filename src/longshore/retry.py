"""`@retry`: try a function again, inside one attempt at a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast, overload

from longshore.errors import LongshoreError

F = TypeVar("F", bound=Callable[..., object])

LONGEST_WAIT = 60.0
"""Seconds; no wait between two tries is longer."""


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
    """Call a plain or async function again when it raises one of these exceptions, up to `max_attempts` calls in all.

    The waits begin at one second and grow by `backoff_factor`, up to a minute, each with up to a second added by
    chance. An error of Longshore's that says it is not retryable is not retried. The last error is raised as it is.
    The time counts as the handler's: its timeout ends the waiting, too.
    """

    def worth_it(error: Exception) -> bool:
        return isinstance(error, exceptions) and not (isinstance(error, LongshoreError) and not error.retryable)

    def decorate(decorated: F) -> F:
        # Imported where it is used, so that `import longshore` stays fast.
        import stamina

        again = stamina.retry(
            on=worth_it,
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
