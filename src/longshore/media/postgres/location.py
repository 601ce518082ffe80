"""Where a queue is: what its URL says, split into what the driver wants and what is ours."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from longshore.errors import SettingsError
from longshore.url import mask_url

DEFAULT_SCHEMA = "longshore"


class Location(NamedTuple):
    """A database and the schema in it that holds the queue."""

    dsn: str
    """What the driver connects to; every libpq parameter but ours is left in."""
    schema: str
    shown: str
    """The URL as it may be shown: without its password."""

    @property
    def quoted_schema(self) -> str:
        """The schema's name as SQL spells it."""
        return '"' + self.schema.replace('"', '""') + '"'

    def call(self, function: str, *types: str) -> str:
        """The statement that calls one of our functions, with an argument of each type."""
        arguments = ", ".join(f"${n}::{name}" for n, name in enumerate(types, start=1))
        return f"select s.* from {self.quoted_schema}.{function}({arguments}) s"  # noqa: S608 - the schema is quoted

    @property
    def channel(self) -> str:
        """The channel on which a wake-up is sent. A name PostgreSQL would cut off is cut off the same way by all."""
        return f"longshore_{self.schema}".encode()[:63].decode(errors="ignore")


def locate(url: str) -> Location:
    """Read a queue URL. Raises `SettingsError` where it names no usable schema or is no URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise SettingsError(f"'{mask_url(url)}' is not a database URL: {error}") from error
    query = parse_qsl(parts.query, keep_blank_values=True)
    named = [value for name, value in query if name == "schema"]
    schema = named[-1] if named else DEFAULT_SCHEMA
    if not schema or len(schema.encode()) > 63 or "\0" in schema or schema.startswith("pg_"):
        raise SettingsError(
            f"'{schema}' cannot be the schema of a queue. Fix: ?schema= takes a name of 1 to 63 bytes that does not "
            "start with pg_"
        )
    others = urlencode([(name, value) for name, value in query if name != "schema"])
    dsn = urlunsplit((parts.scheme, parts.netloc, parts.path, others, parts.fragment))
    return Location(dsn, schema, mask_url(url))
