"""Bulk actions: retry, cancel, release or prune all jobs that match a filter, in the background."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.params import FromPath, QueryParameter
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError, UsageError
from longshore.media.http import wire
from longshore.runs.control.bulk_action import COUNTED, BulkAction, Size, size_of
from longshore.runs.control.job_filter import JobFilter
from longshore.server.api.filters import FilterBody
from longshore.server.api.request import ApiCall, ServedQueue, disconnected
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE, WRITES
from longshore.server.auth.keys import Scope
from longshore.server.bulk_actions import BulkActionStatus
from longshore.server.served import Served
from longshore.system.first_of import first_of

_CHANGE = {SCOPE: (Scope.SUBMIT,)}
_COUNT = {**_CHANGE, WRITES: False}
_SCOPES = {BulkAction.RELEASE: Scope.ADMIN, BulkAction.PRUNE: Scope.ADMIN}
"""The scope of actions that a key for submitting may not carry out."""


class BulkActionRequest(wire.ApiRequest, frozen=True, kw_only=True):
    """An action on all jobs that match. Without states, those that the action changes by itself."""

    action: BulkAction
    where: FilterBody


class BulkActionsAnswer(msgspec.Struct, frozen=True):
    actions: list[BulkActionStatus]


class BulkActionRoutes(Controller):
    """The routes of bulk actions. A key sees those it created, an admin all."""

    path = "/bulk-actions"
    tags = ("bulk actions",)

    @post("/", status_code=202, opt=_CHANGE)
    async def create(self, request: ApiCall, data: Body[BulkActionRequest], served: ServedQueue) -> BulkActionStatus:
        """Begin an action. The answer comes at once; `GET` shows the progress."""
        wanted = await checked_filter(request.user, data, served)
        return await served.bulk_actions.create(data.action, wanted, request.user.key.id)

    @post("/count", status_code=200, opt=_COUNT)
    async def count(self, request: ApiCall, data: Body[BulkActionRequest], served: ServedQueue) -> Size:
        """Return how many jobs an action would change; change nothing. `more`: there are more than that."""
        return await size_of(served.queue, await checked_filter(request.user, data, served), most=COUNTED)

    @get("/", opt=_CHANGE)
    async def actions(self, request: ApiCall, served: ServedQueue) -> BulkActionsAnswer:
        """Return the actions of the last day, the newest first."""
        return BulkActionsAnswer(await served.bulk_actions.all(creator_of(request.user)))

    @get("/{action_id:str}", opt=_CHANGE)
    async def action(
        self,
        request: ApiCall,
        action_id: FromPath[str],
        served: ServedQueue,
        wait_seconds: Annotated[float, QueryParameter(ge=0, le=3600)] = 0.0,
    ) -> BulkActionStatus:
        """Return an action. With `wait_seconds` the answer waits until it has ended, or for that time."""
        status = await served.bulk_actions.get(action_id, creator_of(request.user))
        if wait_seconds > 0:
            timeout = served.clock.sleep(min(wait_seconds, served.limits.wait_seconds))
            await first_of(served.bulk_actions.ended(action_id), timeout, disconnected(request))
            status = await served.bulk_actions.get(action_id, creator_of(request.user))
        return status

    @post("/{action_id:str}/abort", status_code=200, opt=_CHANGE)
    async def abort(self, request: ApiCall, action_id: FromPath[str], served: ServedQueue) -> BulkActionStatus:
        """Stop an action. Jobs that were changed before stay changed."""
        return await served.bulk_actions.abort(action_id, creator_of(request.user))


async def checked_filter(access: Access, data: BulkActionRequest, served: Served) -> JobFilter:
    """Return the filter of an action. Raise an error if the key may not carry it out, or no condition is given."""
    if not access.may(_SCOPES.get(data.action, Scope.SUBMIT)):
        raise PermissionDeniedException(f"The key may not {data.action} jobs: that needs the scope admin.")
    if data.where.is_empty and not data.where.everything:
        raise UsageError("The filter is empty, so it selects every job. Set `everything` to true if that is meant.")
    wanted = data.where.filter(access)
    run = wanted.selection.run
    if run is not None and not await served.queue.stats(run):
        raise NotFoundError(f"There is no run {ascii(run)[:60]}.")
    return msgspec.structs.replace(wanted, selection=data.action.narrowed(wanted.selection))


def creator_of(access: Access) -> str | None:
    """Return the key whose actions someone sees; None for an admin, who sees all."""
    return None if access.may(Scope.ADMIN) else access.key.id
