"""Pace: who says when the next request to a host may go out, and is told how it was answered."""

from __future__ import annotations

from typing import Protocol

from longshore.errors import SnoozeError


class HostClosedError(SnoozeError):
    """The host takes no requests for longer than we may wait. The job comes back when it does, at no cost."""

    def __init__(self, host: str, seconds: float, why: str) -> None:
        super().__init__(f"{host} takes no requests for {seconds:.0f} s: {why}", seconds)
        self.host = host
        self.seconds = seconds
        self.why = why

    def __reduce__(self) -> tuple[type[HostClosedError], tuple[str, float, str]]:  # type: ignore[override]
        return HostClosedError, (self.host, self.seconds, self.why)


class Limiter(Protocol):
    """Permission for each request, by host (`host_of(url)`) and by identity: the proxy it goes through, or nothing."""

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """Return when the request may be sent; at once, where it may be sent now.

        `HostClosedError` where that would take longer than `patience` seconds, as soon as this is known.
        """

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """A request was answered so, after so many seconds; a status of None is no answer.

        `retry_after` is what the answer asks for, in seconds from now.
        """

    def crawl_delay(self, host: str, seconds: float) -> None:
        """The host's robots.txt asks for so many seconds between two requests."""


class Unlimited:
    """Every request may be sent at once."""

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """Return at once."""

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """Pass it over."""

    def crawl_delay(self, host: str, seconds: float) -> None:
        """Pass it over."""
