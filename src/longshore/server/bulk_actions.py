"""Bulk actions that the server carries out in the background: begun, watched and aborted by requests.

The client may leave: an action goes on until it is done, aborted, or the server stops. Its state is kept in the memory
of the server and, at the beginning, every few seconds and at the end, in the shared state of the queue. So what became
of an action can be read after a restart, and one that a killed server left behind is shown as interrupted.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from enum import StrEnum

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError, NotFoundError, QueueError, UsageError
from longshore.extensions.find import find
from longshore.extensions.shared_state import ABSENT, Entries, SharedState, StateEntry
from longshore.queue import Queue
from longshore.runs.control.bulk_action import (
    COUNTED,
    BulkAction,
    BulkProgress,
    change_pages,
    page_change,
    size_of,
)
from longshore.runs.control.job_filter import JobFilter
from longshore.server.traces.trace_store import TraceStore
from longshore.stored import UNFIT
from longshore.url import mask_urls

NAMESPACE = "bulk-actions"
_KEEP_EVERY, _SILENT_SECONDS = 5.0, 60.0
"""Seconds between two writes of a running action, and after which one that is not written any more has no server."""
_FORGET_SECONDS, _MOST_KEPT = 24 * 3600.0, 200
_MOST_RUNNING = 20
_BY_SERVER = "The server stopped. Create the action again: it does the rest."
log = structlog.get_logger()


class BulkState(StrEnum):
    """The state of a bulk action."""

    RUNNING = "running"
    DONE = "done"
    ABORTED = "aborted"
    """By a request, or because the server stopped. Jobs that were changed before stay changed."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The server died before the action was done. The numbers are those of some seconds before."""


class BulkActionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action and how far it is."""

    id: str
    action: BulkAction
    state: BulkState = BulkState.RUNNING
    total: int | None = None
    """How many jobs matched when it began; null until they are counted."""
    total_is_least: bool = False
    """There are more jobs than `total`: counting stopped there."""
    matched: int = 0
    """The jobs that matched, of those that were looked at already."""
    changed: int = 0
    """The jobs of them that were changed."""
    created_at: float
    """In seconds since 1970, by the clock of the server."""
    ended_at: float | None = None
    detail: str = ""
    """Why it ended before it was done."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action as it is stored in the shared state."""

    status: BulkActionStatus
    key: str
    """The id of the API key that created it."""
    seen_at: float
    """When its server last wrote it, by the clock of the medium."""


class _Running:
    """A bulk action of this process."""

    def __init__(self, status: BulkActionStatus, wanted: JobFilter, key: str) -> None:
        self.status = status
        self.wanted = wanted
        self.key = key
        self.stop = asyncio.Event()
        self.ended = asyncio.Event()
        self.version = ABSENT
        self.kept_at = float("-inf")


class BulkActions:
    """The bulk actions of one server."""

    def __init__(self, queue: Queue, clock: Clock, traces: TraceStore, *, read_only: bool = False) -> None:
        """`traces` has the records that prune removes with the jobs. With `read_only`, old actions are not removed."""
        self._queue = queue
        self._read_only = read_only
        self._state = find(queue, SharedState)
        self._clock = clock
        self._traces = traces
        self._known: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def running(self) -> int:
        """The number of actions that run now."""
        return sum(not each.ended.is_set() for each in self._known.values())

    async def create(self, action: BulkAction, wanted: JobFilter, key: str) -> BulkActionStatus:
        """Begin an action for the API key with this id. Raise `UsageError` if too many run."""
        if self.running >= _MOST_RUNNING or self._closed:
            raise UsageError(f"{self.running} bulk actions are running. Wait until one has ended, or abort one.")
        status = BulkActionStatus(id=secrets.token_hex(8), action=action, created_at=self._clock.now())
        begun = self._known[status.id] = _Running(status, wanted, key)
        self._forget()
        task = asyncio.create_task(self._carry_out(begun))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return status

    async def get(self, action_id: str, key: str | None) -> BulkActionStatus:
        """Return an action. Raise `NotFoundError` if there is none that `key` created; None is every key."""
        if (running := self._known.get(action_id)) is not None and key in (None, running.key):
            return running.status
        for kept in await self._kept(frozenset({action_id})):
            if key in (None, kept.key):
                return kept.status
        raise NotFoundError(f"There is no bulk action {ascii(action_id)[:60]}. Ended ones are kept for a day.")

    async def all(self, key: str | None) -> list[BulkActionStatus]:
        """Return the actions that `key` created, the newest first; None is every key."""
        found = {kept.status.id: (kept.key, kept.status) for kept in await self._kept(None)}
        found |= {running.status.id: (running.key, running.status) for running in self._known.values()}
        ours = [status for its_key, status in found.values() if key in (None, its_key)]
        return sorted(ours, key=lambda status: (-status.created_at, status.id))

    async def ended(self, action_id: str) -> None:
        """Wait until an action of this process has ended."""
        if (running := self._known.get(action_id)) is not None:
            await running.ended.wait()

    async def abort(self, action_id: str, key: str | None) -> BulkActionStatus:
        """Stop an action after the jobs it is changing now, and return it. One that has ended stays as it is."""
        status = await self.get(action_id, key)
        running = self._known.get(action_id)
        if running is not None:
            running.stop.set()
            await running.ended.wait()
            return running.status
        if status.state is BulkState.RUNNING:
            raise UsageError("Another server process carries out this action. Abort it there.")
        return status

    def stop_all(self) -> None:
        """Begin to stop all actions, because the server stops."""
        self._closed = True
        for running in self._known.values():
            if not running.ended.is_set():
                running.status = msgspec.structs.replace(running.status, detail=_BY_SERVER)
                running.stop.set()

    async def close(self) -> None:
        """Stop all actions, and return when they have stopped."""
        self.stop_all()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, running: _Running) -> None:
        try:
            await self._keep(running)
            size = await size_of(self._queue, running.wanted, most=COUNTED)
            running.status = msgspec.structs.replace(running.status, total=size.jobs, total_is_least=size.more)
            done = await self._change(running)
            self._end(running, BulkState.DONE if done.finished else BulkState.ABORTED)
        except LongshoreError as error:
            self._end(running, BulkState.FAILED, mask_urls(str(error)))
        except Exception:
            log.exception("A bulk action failed", action=running.status.action)
            self._end(running, BulkState.FAILED, "The log of the server has the cause.")
        finally:
            await self._keep(running)
            running.ended.set()

    async def _change(self, running: _Running) -> BulkProgress:
        async def note(done: BulkProgress) -> None:
            running.status = msgspec.structs.replace(running.status, matched=done.matched, changed=done.changed)
            if self._clock.monotonic() - running.kept_at >= _KEEP_EVERY:
                await self._keep(running)

        action = running.status.action
        if action is BulkAction.PRUNE:
            return await self._traces.prune_pages(self._queue, running.wanted, note, running.stop)
        return await change_pages(self._queue, running.wanted, page_change(action, self._queue), note, running.stop)

    def _end(self, running: _Running, state: BulkState, detail: str | None = None) -> None:
        if detail is None:
            detail = running.status.detail if state is BulkState.ABORTED else ""
        running.status = msgspec.structs.replace(running.status, state=state, detail=detail, ended_at=self._clock.now())

    async def _keep(self, running: _Running) -> None:
        """Write the action into the shared state. If that fails, this process still knows it."""
        if self._state is None:
            return
        running.kept_at = self._clock.monotonic()
        try:
            now = (await self._state.read_entries(NAMESPACE, frozenset({running.status.id}))).now
            kept = _Kept(status=running.status, key=running.key, seen_at=now)
            entry = StateEntry(running.status.id, running.version, msgspec.to_builtins(kept))
            (version,) = await self._state.swap_entries(NAMESPACE, [entry])
        except QueueError as error:
            log.warning("The progress of a bulk action could not be stored", error=mask_urls(str(error)))
            return
        if version is not None:
            running.version = version

    async def _kept(self, names: frozenset[str] | None) -> list[_Kept]:
        """Return the actions in the shared state, and remove old ones from it."""
        if self._state is None:
            return []
        entries = await self._state.read_entries(NAMESPACE, names)
        found = list(_readable(entries))
        if names is None and not self._read_only:
            old = [entry for entry, kept in found if entries.now - kept.seen_at > _FORGET_SECONDS]
            await self._state.swap_entries(NAMESPACE, [StateEntry(entry.name, entry.version, None) for entry in old])
        return [_as_of(kept, entries.now) for _, kept in found if entries.now - kept.seen_at <= _FORGET_SECONDS]

    def _forget(self) -> None:
        """Forget the actions of this process that ended first, if there are many. The shared state has them longer."""
        ended = [action_id for action_id, running in self._known.items() if running.ended.is_set()]
        for action_id in ended[: max(len(self._known) - _MOST_KEPT, 0)]:
            del self._known[action_id]


def _readable(entries: Entries) -> Iterable[tuple[StateEntry, _Kept]]:
    for entry in entries.entries:
        try:
            yield entry, msgspec.convert(entry.value, _Kept)
        except UNFIT:
            continue  # written by another version


def _as_of(kept: _Kept, now: float) -> _Kept:
    status = kept.status
    if status.state is not BulkState.RUNNING or now - kept.seen_at < _SILENT_SECONDS:
        return kept
    detail = "The server died before the action was done. Create it again: it does the rest."
    interrupted = msgspec.structs.replace(status, state=BulkState.INTERRUPTED, ended_at=kept.seen_at, detail=detail)
    return msgspec.structs.replace(kept, status=interrupted)
