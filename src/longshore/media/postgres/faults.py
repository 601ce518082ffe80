"""Translate the driver's and the server's errors to those of `longshore.errors`."""

from __future__ import annotations

import asyncio
import ssl

import asyncpg

from longshore.errors import (
    ForeignQueueError,
    LongshoreError,
    MissingQueueError,
    QueueError,
    QueueFullError,
    QueueTimeoutError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    UsageError,
)
from longshore.media.postgres.location import DatabaseLocation

DRIVER_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""The errors of a driver call that `fault` translates."""

# SQLSTATE classes and codes after which the same call may succeed.
_PASSING = ("08", "40", "53", "55P03", "57", "58")
# SQLSTATE classes that speak about a value: it has a wrong form, or is larger than the server allows.
_UNFIT = ("22", "54")
# The server reported that it rolled the transaction back.
_UNDONE = frozenset({"40001", "40P01"})


def was_undone(error: BaseException) -> bool:
    """Return whether the server reported a rollback, so that the call may be repeated at once."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in _UNDONE


def fault(error: BaseException, location: DatabaseLocation) -> LongshoreError | None:
    """Return the Longshore error for one of the driver or the network; None for any other error."""
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


def timed_out(location: DatabaseLocation, reason: str) -> QueueTimeoutError:
    """Return the error for a call that was ended at its time limit."""
    return QueueTimeoutError(f"The database at {location.shown} took too long: {reason}")


def _encryption_fault(error: OSError, where: str) -> LongshoreError | None:
    """Return the error if client and server disagree on encryption, which no retry fixes; None for any other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return QueueError(
            f"The certificate of the server at {where} is not trusted: {_reason(error)}. Fix: name the "
            "certificate of its issuer (sslrootcert=FILE), or use a weaker check than sslmode=verify-full"
        )
    # The driver has no exception class for this case.
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
            return MissingQueueError(
                f"The server at {where} has no such database: {reason}. Fix: createdb, or correct the URL"
            )
        case "42501":
            return QueueError(
                f"The user of {where} lacks a privilege: {reason}. Fix: let the owner run 'longshore migrate' once and "
                f"grant this user what it needs on schema {schema} (docs/postgresql.md has the statements)"
            )
        case "25006":
            return ReadOnlyQueueError(
                f"The database at {where} accepts no writes: {reason}. Fix: name the primary, not a standby"
            )
        case "57014":
            return timed_out(location, reason)
        case "53100":
            return QueueFullError(
                f"The disk of the database at {where} is full: {reason}. Fix: free some space; nothing is lost"
            )
        case "42P01" | "3F000" | "42883" | "42703":
            return ForeignQueueError(
                f"Schema {schema} of {where} has no complete Longshore queue: {reason}. Fix: 'longshore migrate', "
                "or name another schema (?schema=...)"
            )
        case "22021" | "22P05":
            return UsageError(f"PostgreSQL cannot store this text: {reason}. Fix: leave out NUL characters")
    if code.startswith(_UNFIT):
        return UsageError(f"PostgreSQL cannot store this: {reason} (SQLSTATE {code})")
    if code.startswith(_PASSING):
        return QueueUnavailableError(f"The database at {where} cannot do it now: {reason}")
    return QueueError(f"The database at {where} refused: {reason} (SQLSTATE {code})")


def _reason(error: BaseException) -> str:
    text = str(error.args[0] if error.args else "") if isinstance(error, asyncpg.PostgresError) else str(error)
    return (text or type(error).__name__).strip().rstrip(".")
