"""Bounds of the outcomes that workers send: each is read again whenever someone looks at its job."""

from __future__ import annotations

import msgspec

from longshore.errors import UsageError
from longshore.media.http import wire
from longshore.server.auth.access import Access
from longshore.server.auth.keys import Scope
from longshore.server.served import Served
from longshore.stored import Json


def check_outcome(outcome: wire.OutcomeBody, sent_bytes: int, served: Served, access: Access) -> None:
    """Raise `UsageError` if an outcome has too many follow-on jobs, or a result or failure that is too large.

    `sent_bytes` is the size of the request: nothing in it is larger, so that most results need not be measured.
    """
    if isinstance(outcome, wire.CompletedBody):
        most = served.limits.follow_ons
        if len(outcome.jobs) > most and not access.may(Scope.ADMIN):
            raise UsageError(
                f"One attempt may add {most:,} follow-on jobs, not {len(outcome.jobs):,}. Divide them among jobs."
            )
        if sent_bytes > served.limits.result_bytes:
            check_size("result", outcome.result, served)
    elif isinstance(outcome, wire.FailedBody) and sent_bytes > served.limits.result_bytes:
        check_size("failure", outcome.failure, served)


def check_size(what: str, value: Json, served: Served) -> None:
    """Raise `UsageError` if a result or a failure is too large."""
    size, most = len(msgspec.json.encode(value)), served.limits.result_bytes
    if size > most:
        raise UsageError(
            f"A {what} may have {most:,} bytes as JSON, not {size:,}. Emit records, or return a path or URL instead."
        )
