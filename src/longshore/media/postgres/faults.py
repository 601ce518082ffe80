"""What goes wrong with a database, in the user's words: every error of the driver becomes one of ours."""

from __future__ import annotations

import asyncio
import ssl

import asyncpg

from longshore.errors import (
    ForeignQueueError,
    LongshoreError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    UsageError,
)
from longshore.media.postgres.location import DatabaseLocation

DRIVER_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a call of the driver may raise that `fault` has a word for."""

# SQLSTATE classes and codes after which the same call may succeed.
_PASSING = ("08", "40", "53", "55P03", "57", "58")
# The transaction certainly did not happen: the server undid it and said so.
_UNDONE = frozenset({"40001", "40P01"})


def was_undone(error: BaseException) -> bool:
    """Whether the server said that nothing of the call happened, so that it may be made again at once."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in _UNDONE


def fault(error: BaseException, location: DatabaseLocation) -> LongshoreError | None:
    """Our error for one of the driver's or the network's; None where it is neither and should pass as it is."""
    where = location.shown
    if isinstance(error, asyncpg.PostgresError):
        return _server_fault(error, location)
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return QueueUnavailableError(
            f"The database at {where} did not answer in time. Fix: check that its machine is up and not overloaded, "
            "and that no firewall is in between"
        )
    if isinstance(error, OSError):
        if (encryption := _encryption_fault(error, where)) is not None:
            return encryption
        return QueueUnavailableError(
            f"The database at {where} cannot be reached: {_reason(error)}. Fix: check host and port, and that the "
            "server runs and lets this machine in"
        )
    if isinstance(error, asyncpg.ClientConfigurationError):
        return UsageError(f"'{where}' is not a usable database URL: {_reason(error)}")
    if isinstance(error, asyncpg.DataError | ValueError) and "\\x00" in str(error):
        return UsageError("PostgreSQL cannot store the character NUL in a run, kind, partition, key or host")
    if isinstance(error, asyncpg.InternalClientError) or (
        isinstance(error, asyncpg.InterfaceError) and "connection" in str(error)
    ):
        return QueueUnavailableError(f"The connection to {where} was lost: {_reason(error)}")
    return None


def _encryption_fault(error: OSError, where: str) -> LongshoreError | None:
    """Our error where the two sides do not agree on encryption, which no waiting mends; None for any other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return QueueError(
            f"The certificate of the server at {where} is not trusted: {_reason(error)}. Fix: name the "
            "certificate of who signed it (sslrootcert=FILE), or ask for less than sslmode=verify-full"
        )
    # The driver has no class of its own for it.
    if "rejected SSL upgrade" in str(error):
        return QueueError(
            f"The server at {where} does not encrypt connections, and sslmode (or PGSSLMODE) asks for it. Fix: switch "
            "on ssl in the server; or, on a network that you trust, write sslmode=prefer or sslmode=disable"
        )
    return None


def _server_fault(error: asyncpg.PostgresError, location: DatabaseLocation) -> LongshoreError:
    where, code, reason = location.shown, error.sqlstate or "", _reason(error)
    schema = location.schema
    match code:
        case "28000" if "no encryption" in reason:
            return QueueError(
                f"The database at {where} refuses the login: {reason}. Fix: if pg_hba.conf lets this user in only "
                "when the connection is encrypted (hostssl), write sslmode=require"
            )
        case "28P01" | "28000":
            return QueueError(
                f"The database at {where} refuses the login: {reason}. Fix: check user and password in the URL "
                "(or PGPASSWORD, or ~/.pgpass), and that pg_hba.conf lets this user in"
            )
        case "3D000":
            return QueueError(
                f"The server at {where} has no such database: {reason}. Fix: createdb, or correct the URL"
            )
        case "42501":
            return QueueError(
                f"The user of {where} lacks a privilege: {reason}. Fix: let the owner run 'longshore migrate' once and "
                f"grant this user what it needs on schema {schema} (docs/postgresql.md has the statements)"
            )
        case "25006":
            return ReadOnlyQueueError(
                f"The database at {where} takes no writes: {reason}. Fix: name the primary, not a standby"
            )
        case "53100":
            return QueueFullError(
                f"The disk of the database at {where} is full: {reason}. Fix: make room; nothing is lost"
            )
        case "42P01" | "3F000" | "42883" | "42703":
            return ForeignQueueError(
                f"Schema {schema} of {where} has no whole Longshore queue in it: {reason}. Fix: 'longshore migrate', "
                "or name another schema (?schema=...)"
            )
        case "22021" | "22P05":
            return UsageError(f"PostgreSQL cannot store this text: {reason}. Fix: leave out NUL characters")
    if code.startswith(_PASSING):
        return QueueUnavailableError(f"The database at {where} cannot do it now: {reason}")
    return QueueError(f"The database at {where} refused: {reason} (SQLSTATE {code})")


def _reason(error: BaseException) -> str:
    text = str(error.args[0] if error.args else "") if isinstance(error, asyncpg.PostgresError) else str(error)
    return (text or type(error).__name__).strip().rstrip(".")
