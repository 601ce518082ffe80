"""Every error of the driver has a word of ours, and the word says whether trying again may help."""

from __future__ import annotations

import ssl

import asyncpg
import pytest

from longshore.errors import (
    ForeignQueueError,
    QueueError,
    QueueFullError,
    QueueTimeoutError,
    QueueUnavailableError,
    ReadOnlyQueueError,
)
from longshore.media.postgres.faults import fault, was_undone
from longshore.media.postgres.location import locate

WHERE = locate("postgresql://me:secret@db.example/app")
SERVER_ERRORS = sorted(
    {
        error
        for error in vars(asyncpg.exceptions).values()
        if isinstance(error, type) and issubclass(error, asyncpg.PostgresError) and error.sqlstate
    },
    key=lambda error: error.__name__,
)


@pytest.mark.parametrize("kind", SERVER_ERRORS, ids=lambda kind: kind.__name__)
def test_each_error_of_the_server_has_a_word(kind: type[asyncpg.PostgresError]) -> None:
    told = fault(kind("what happened"), WHERE)
    assert told is not None
    assert "secret" not in str(told)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (asyncpg.TooManyConnectionsError("x"), QueueUnavailableError),
        (asyncpg.AdminShutdownError("x"), QueueUnavailableError),
        (asyncpg.CannotConnectNowError("x"), QueueUnavailableError),
        (asyncpg.ConnectionDoesNotExistError("x"), QueueUnavailableError),
        (asyncpg.QueryCanceledError("x"), QueueTimeoutError),
        (asyncpg.DeadlockDetectedError("x"), QueueUnavailableError),
        (asyncpg.InterfaceError("connection is closed"), QueueUnavailableError),
        (asyncpg.InternalClientError("another operation is in progress"), QueueUnavailableError),
        (ConnectionResetError("x"), QueueUnavailableError),
        (TimeoutError(), QueueUnavailableError),
        (asyncpg.DiskFullError("x"), QueueFullError),
        (asyncpg.ReadOnlySQLTransactionError("x"), ReadOnlyQueueError),
        (asyncpg.UndefinedTableError("x"), ForeignQueueError),
        (asyncpg.InvalidPasswordError("x"), QueueError),
        (asyncpg.InsufficientPrivilegeError("x"), QueueError),
        (ssl.SSLCertVerificationError("x"), QueueError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_word_says_what_it_is(error: Exception, word: type[QueueError]) -> None:
    assert type(fault(error, WHERE)) is word


def test_a_fault_of_our_own_making_passes_as_it_is() -> None:
    assert fault(KeyError("x"), WHERE) is None


def test_only_what_the_server_undid_is_known_to_be_undone() -> None:
    assert was_undone(asyncpg.DeadlockDetectedError("x"))
    assert not was_undone(asyncpg.ConnectionDoesNotExistError("x"))


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (ConnectionError('PostgreSQL server at "h:5432" rejected SSL upgrade'), "sslmode=disable"),
        (ssl.SSLCertVerificationError(1, "self-signed certificate"), "sslrootcert"),
        (asyncpg.InvalidAuthorizationSpecificationError("no pg_hba.conf entry, no encryption"), "sslmode=require"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_who_disagrees_about_encryption_is_told_which_parameter_it_is(error: Exception, fix: str) -> None:
    told = fault(error, WHERE)
    assert type(told) is QueueError
    assert fix in str(told).partition("Fix: ")[2]
