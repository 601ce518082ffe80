"""Where a queue is: what its URL says, split into what the driver wants and what is ours."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple, NoReturn
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from longshore.errors import SettingsError
from longshore.url import mask_url

DEFAULT_SCHEMA = "longshore"
PARAMETERS = (
    "schema",
    "application_name",
    "database",
    "dbname",
    "gsslib",
    "host",
    "krbsrvname",
    "options",
    "passfile",
    "password",
    "port",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
    "user",
)
"""What may stand behind the `?`: ours first, then those of libpq that the driver knows.

The driver would hand any other to the server as one of its settings, which refuses it, or takes it for something else.
"""

_ENCODE = "in a user name or password, write % / : ? # @ as %25 %2F %3A %3F %23 %40"
# One of the hosts: a name, or an address of IPv6 in brackets; perhaps with a port.
_HOST = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]*)(:(?P<port>[0-9]*))?")


class DatabaseLocation(NamedTuple):
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


def locate(url: str) -> DatabaseLocation:
    """Read a queue URL. Raises `SettingsError` where it is none, or names a parameter or a schema that cannot be."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        # Its own words may hold the password.
        raise SettingsError(f"'{mask_url(url)}' is not a database URL. Fix: {_ENCODE}") from error
    _check_hosts(url, parts)
    query = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in query:
        if name not in PARAMETERS:
            _refuse_parameter(url, name)
        if name == "port" and not all(_is_port(port) for port in value.split(",")):
            _refuse_port(url)
    named = [value for name, value in query if name == "schema"]
    schema = named[-1] if named else DEFAULT_SCHEMA
    if not schema or len(schema.encode()) > 63 or "\0" in schema or schema.startswith("pg_"):
        raise SettingsError(
            f"'{schema}' cannot be the schema of a queue. Fix: ?schema= takes a name of 1 to 63 bytes that does not "
            "start with pg_"
        )
    others = urlencode([(name, value) for name, value in query if name != "schema"])
    dsn = urlunsplit((parts.scheme, parts.netloc, parts.path, others, parts.fragment))
    return DatabaseLocation(dsn, schema, mask_url(url))


def _check_hosts(url: str, parts: SplitResult) -> None:
    """`SettingsError` for what the driver would misread, or repeat with the password in it."""
    credentials, _, named = parts.netloc.rpartition("@")
    hosts = named.split(",")
    found = [_HOST.fullmatch(host) for host in hosts]
    sound = all(host is not None and (not host["port"] or _is_port(host["port"])) for host in found)
    if "@" in f"{credentials}{parts.path}{parts.fragment}" or (not sound and "@" in parts.query):
        raise SettingsError(f"'{mask_url(url)}' has an @ in a place where none can be. Fix: {_ENCODE}")
    if not sound:
        _refuse_port(url)
    if len(hosts) > 1 and not all(hosts):
        raise SettingsError(f"'{mask_url(url)}' has a comma and no host beside it. Fix: name it, or drop the comma")


def _is_port(text: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", text) is not None and 0 < int(text) < 65536


def _refuse_port(url: str) -> NoReturn:
    raise SettingsError(
        f"'{mask_url(url)}' has a port that is none. Fix: write one number from 1 to 65535 behind the host, as in "
        f"host:5432; and {_ENCODE}"
    )


def _refuse_parameter(url: str, name: str) -> NoReturn:
    before, _, behind = url.partition("?")
    if "@" in behind and "@" not in before:  # the ? is one of the password
        raise SettingsError(f"'{mask_url(url)}' has a ? in a place where none can be. Fix: {_ENCODE}")
    near = difflib.get_close_matches(name.lower(), PARAMETERS, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    # Without what is behind the ?: a password under a mistyped name is not known for one.
    shown = mask_url(url).partition("?")[0]
    raise SettingsError(f"'{shown}' has the unknown parameter '{name}'{hint} Fix: use one of {', '.join(PARAMETERS)}")
