"""The location of a queue: its URL, split into the driver's part and Longshore's part."""

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
"""The parameters allowed after the `?`: Longshore's first, then those of libpq that the driver knows.

The driver would send any other one to the server as a server setting; the server would refuse or misinterpret it.
"""

_ENCODE = "in a user name or password, write % / : ? # @ as %25 %2F %3A %3F %23 %40"
# One of the hosts: a name or an IPv6 address in brackets, optionally with a port.
_HOST = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]*)(:(?P<port>[0-9]*))?")


class DatabaseLocation(NamedTuple):
    """A database and the schema in it that holds the queue."""

    dsn: str
    """The URL for the driver: all parameters except Longshore's."""
    schema: str
    shown: str
    """The URL without its password, for messages."""

    @property
    def quoted_schema(self) -> str:
        """The schema's name, quoted for SQL."""
        return '"' + self.schema.replace('"', '""') + '"'

    def call(self, function: str, *types: str) -> str:
        """Return the statement that calls a function of the schema, with one argument of each type."""
        arguments = ", ".join(f"${n}::{name}" for n, name in enumerate(types, start=1))
        return f"select s.* from {self.quoted_schema}.{function}({arguments}) s"  # noqa: S608 - the schema is quoted

    @property
    def channel(self) -> str:
        """The channel for wake-ups, truncated to PostgreSQL's limit in the same way by every process."""
        return f"longshore_{self.schema}".encode()[:63].decode(errors="ignore")


def locate(url: str) -> DatabaseLocation:
    """Parse a queue URL. Raises `SettingsError` if it is malformed or has an invalid parameter or schema."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        # The original message may contain the password.
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
    """Raise `SettingsError` for hosts that the driver would misread, or quote in an error with the password."""
    credentials, _, named = parts.netloc.rpartition("@")
    hosts = named.split(",")
    found = [_HOST.fullmatch(host) for host in hosts]
    sound = all(host is not None and (not host["port"] or _is_port(host["port"])) for host in found)
    if "@" in f"{credentials}{parts.path}{parts.fragment}" or (not sound and "@" in parts.query):
        raise SettingsError(f"'{mask_url(url)}' has an @ at an invalid position. Fix: {_ENCODE}")
    if not sound:
        _refuse_port(url)
    if len(hosts) > 1 and not all(hosts):
        raise SettingsError(f"'{mask_url(url)}' has a comma without a host. Fix: name the host or remove the comma")


def _is_port(text: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", text) is not None and 0 < int(text) < 65536


def _refuse_port(url: str) -> NoReturn:
    raise SettingsError(
        f"'{mask_url(url)}' has an invalid port. Fix: write one number from 1 to 65535 after the host, as in "
        f"host:5432; and {_ENCODE}"
    )


def _refuse_parameter(url: str, name: str) -> NoReturn:
    before, _, behind = url.partition("?")
    if "@" in behind and "@" not in before:  # the ? belongs to the password
        raise SettingsError(f"'{mask_url(url)}' has a ? at an invalid position. Fix: {_ENCODE}")
    near = difflib.get_close_matches(name.lower(), PARAMETERS, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    # Without the query: masking does not recognize a password under a misspelled parameter name.
    shown = mask_url(url).partition("?")[0]
    raise SettingsError(f"'{shown}' has the unknown parameter '{name}'{hint} Fix: use one of {', '.join(PARAMETERS)}")
