"""The picture of a page at the moment a handler failed, attached to the error for the failure bundle."""

from __future__ import annotations

import msgspec


class Screenshot(msgspec.Struct, frozen=True):
    """The state of a page at the moment of a failure."""

    url: str
    html: str
    screenshot: bytes
    """A PNG of the visible part of the page."""


_ATTRIBUTE = "_longshore_picture"


def attach(picture: Screenshot, error: BaseException) -> None:
    """Attach a picture to an error."""
    setattr(error, _ATTRIBUTE, picture)


def picture_of(error: BaseException) -> Screenshot | None:
    """Return the picture attached to an error or to one of its causes; None if there is none."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        found = getattr(cause, _ATTRIBUTE, None)
        if isinstance(found, Screenshot):
            return found
        cause = cause.__cause__ or cause.__context__
    return None
