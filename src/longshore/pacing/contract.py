"""The `Limiter` protocol: it says when the next request to a host may be sent, and learns how it was answered."""

from __future__ import annotations

from typing import Protocol

from longshore.errors import SnoozeError

BLOCK_PAGE = -1
"""In place of a status: the site answered with a block page, which is a refusal whatever its status says."""


def refusal_in_words(status: int) -> str:
    """Return the status of a refusal as text: `429`, or `a block page`."""
    return "a block page" if status == BLOCK_PAGE else str(status)


class HostClosedError(SnoozeError):
    """The host takes no requests for longer than the caller may wait.

    The job goes back to the queue until the host opens, and this costs no attempt.
    """

    def __init__(self, host: str, seconds: float, why: str) -> None:
        super().__init__(f"{host} takes no requests for {seconds:.0f} s: {why}", seconds)
        self.host = host
        self.seconds = seconds
        self.why = why

    def __reduce__(self) -> tuple[type[HostClosedError], tuple[str, float, str]]:  # type: ignore[override]
        return HostClosedError, (self.host, self.seconds, self.why)


class Limiter(Protocol):
    """Permission for each request, by host (`host_of(url)`) and by identity: the proxy in use, or an empty string."""

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """Return when the request may be sent; at once if it may be sent now.

        Raise `HostClosedError` as soon as it is known that this takes longer than `patience` seconds.
        """

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """Take note that a request was answered with `status` after `seconds`; None means that no answer came.

        `retry_after` is the delay that the answer asks for, in seconds from now.
        """

    def crawl_delay(self, host: str, seconds: float) -> None:
        """Take note that robots.txt of the host asks for `seconds` between two requests."""


class Unlimited:
    """A `Limiter` that lets every request through at once."""

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """Return at once."""

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """Do nothing."""

    def crawl_delay(self, host: str, seconds: float) -> None:
        """Do nothing."""
