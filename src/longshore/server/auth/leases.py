"""Leases over HTTP: who holds them, and the tokens that prove it.

Holder: a worker names itself by a label and an incarnation. Neither is believed: the holder that the queue stores is a
keyed hash of the incarnation and the API key that claimed. A worker with another key, or one that has read the list of
workers, can therefore never renew, settle or sign off for it.

Token: what the settlement needs to know of the lease, signed together with the key. It is checked without a look into
the queue and holds after a restart of the server. Whether the lease still holds is decided by the queue, with the
settlement. The latest tokens are also remembered with their leases: to read one is then a look into a table, and a
medium finds in the lease what it noted there for itself.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections import OrderedDict
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from longshore.errors import UsageError
from longshore.job import Job, State
from longshore.lease import Lease, WorkerId
from longshore.stored import UNFIT

_SIGNATURE_BYTES = 16
_MARK = "#"
"""Between the public part of an incarnation and the hash."""
LONGEST_LABEL = 5000
_MOST_REMEMBERED = 20_000


class LostLeaseError(UsageError):
    """The token is none of ours, or belongs to another key."""


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    job: str
    epoch: int
    label: str
    incarnation: str
    run: str
    kind: str
    key: str
    partition: str
    host: str
    depth: int
    attempts: int
    max_attempts: int


class LeaseTokens:
    """Makes and reads the tokens of one server."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        # Ordered: to find the oldest entry of a plain dict, all that were removed before it are passed over.
        self._remembered: OrderedDict[tuple[str, str], Lease] = OrderedDict()

    def holder(self, worker: WorkerId, key_id: str) -> WorkerId:
        """Return the worker that the queue stores for a worker with this key."""
        if len(worker.label) > LONGEST_LABEL or len(worker.incarnation) > 2 * LONGEST_LABEL:
            raise UsageError(f"The label of a worker may have at most {LONGEST_LABEL:,} characters")
        proof = self._sign(b"holder", key_id, worker.label.encode() + b"\0" + worker.incarnation.encode())
        return WorkerId(worker.label, f"{worker.public_incarnation}{_MARK}{proof.hex()}")

    def make(self, lease: Lease, key_id: str) -> str:
        """Return the token of a lease that was claimed with this key."""
        job = lease.job
        claims = _Claims(
            job.id,
            job.epoch,
            lease.worker.label,
            lease.worker.incarnation,
            job.run,
            job.kind,
            job.key,
            job.partition,
            job.host,
            job.depth,
            job.attempts,
            job.max_attempts,
        )
        body = msgspec.json.encode(claims)
        token = base64.urlsafe_b64encode(self._sign(b"lease", key_id, body) + body).rstrip(b"=").decode()
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        # Without the payload, which may be large and which no settlement needs.
        self._remembered[token, key_id] = replace(lease, job=replace(job, payload={}, failure=None))
        return token

    def read(self, token: str, key_id: str) -> Lease:
        """Return the lease. Raise `LostLeaseError` if this server did not make the token for this key."""
        if (remembered := self._remembered.get((token, key_id))) is not None:
            return remembered
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
            if not hmac.compare_digest(signature, self._sign(b"lease", key_id, body)):
                raise LostLeaseError("The lease is not one of this key")
            claims = msgspec.json.decode(body, type=_Claims)
        except (binascii.Error, *UNFIT) as error:
            raise LostLeaseError("The lease is not one that this server gave out") from error
        job = Job(
            id=claims.job,
            run=claims.run,
            kind=claims.kind,
            key=claims.key,
            payload={},
            partition=claims.partition,
            host=claims.host,
            depth=claims.depth,
            state=State.CLAIMED,
            epoch=claims.epoch,
            attempts=claims.attempts,
            max_attempts=claims.max_attempts,
        )
        return Lease(job, WorkerId(claims.label, claims.incarnation), 0.0)

    def forget(self, tokens: Iterable[str], key_id: str) -> None:
        """Forget the leases of tokens that have been used. If one is sent again, it is read as after a restart."""
        for token in tokens:
            self._remembered.pop((token, key_id), None)

    def _sign(self, purpose: bytes, key_id: str, body: bytes) -> bytes:
        message = b"\0".join((purpose, key_id.encode(), body))
        return hmac.digest(self._secret, message, "sha256")[:_SIGNATURE_BYTES]


def shown_incarnation(holder: WorkerId) -> str:
    """Return what others may know of a worker's incarnation."""
    public, mark, _ = holder.incarnation.rpartition(_MARK)
    return public if mark else holder.public_incarnation
