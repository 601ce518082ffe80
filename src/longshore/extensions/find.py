"""Whether a queue offers an extension: the one place that answers, with the extension typed.

The traits of a queue come from its medium and say which extensions the medium supports. A wrapper has the traits of the
queue it wraps. It implements only those extension methods that it changes, so the search goes through `unwrap` from the
outermost wrapper inwards and ends at the first object that has the methods. The call timer implements all of them, so
every extension that is found through a worker's queue is timed.

An extension is not a `Queue`. Code that needs both keeps both, so that a claim or a settlement can never bypass the
wrappers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar, runtime_checkable

from longshore.errors import UsageError
from longshore.extensions.archive import Archives
from longshore.extensions.claim_stats import ClaimStats
from longshore.extensions.payloads import PayloadLookup
from longshore.extensions.presence import WorkerRegistry
from longshore.extensions.rejected import KeepsRejected
from longshore.extensions.shared_state import SharedState
from longshore.extensions.traces import KeepsTraces
from longshore.extensions.transfer import TakesOver
from longshore.queue import Queue

TRAIT_OF: Mapping[type, str] = {
    Archives: "archives",
    ClaimStats: "counts_lost_claims",
    KeepsRejected: "keeps_rejected",
    KeepsTraces: "keeps_traces",
    PayloadLookup: "finds_payloads",
    SharedState: "shares_state",
    TakesOver: "takes_over",
    WorkerRegistry: "tracks_presence",
}
"""Every extension, and the trait of the media that support it."""

E = TypeVar(
    "E", Archives, ClaimStats, KeepsRejected, KeepsTraces, PayloadLookup, SharedState, TakesOver, WorkerRegistry
)


@runtime_checkable
class Wrapper(Protocol):
    """A queue that wraps another one."""

    def unwrap(self) -> Queue:
        """Return the queue that this one wraps."""


def find(queue: Queue, extension: type[E]) -> E | None:
    """Return the extension if the medium of `queue` supports it, else None."""
    if not getattr(queue.traits, TRAIT_OF[extension]):
        return None
    layer = queue
    while not isinstance(layer, extension):
        if not isinstance(layer, Wrapper):
            raise TypeError(f"{type(layer).__name__} lacks methods of {extension.__name__}, which its traits promise")
        layer = layer.unwrap()
    return layer


def require(queue: Queue, extension: type[E], lacking: str) -> E:
    """Return the extension. Raise `UsageError` if the medium does not support it.

    `lacking` ends the sentence "A <medium> queue …": what the medium cannot do, and what to do instead.
    """
    found = find(queue, extension)
    if found is None:
        raise UsageError(f"A {queue.traits.name} queue {lacking}")
    return found
