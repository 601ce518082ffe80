"""What a page looked like when a handler failed on it, kept with the error, for whoever records the failure."""

from __future__ import annotations

import msgspec


class Screenshot(msgspec.Struct, frozen=True):
    """A page at the moment of a failure."""

    url: str
    html: str
    screenshot: bytes
    """PNG of what was in view."""


_ATTRIBUTE = "_longshore_picture"


def attach(picture: Screenshot, error: BaseException) -> None:
    """Keep a picture with an error."""
    setattr(error, _ATTRIBUTE, picture)


def picture_of(error: BaseException) -> Screenshot | None:
    """The picture of the page an error came from, or one of those that led to it; None where none was taken."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        found = getattr(cause, _ATTRIBUTE, None)
        if isinstance(found, Screenshot):
            return found
        cause = cause.__cause__ or cause.__context__
    return None
