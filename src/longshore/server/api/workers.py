"""Workers: which are alive, what each does, and orders to them."""

from __future__ import annotations

from litestar import Controller, get, post
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError
from longshore.extensions.find import require
from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.extensions.shared_state import SharedState
from longshore.extensions.worker_orders import WorkerOrder, give_order
from longshore.media.http import wire
from longshore.runs.watch.active_workers import works_on
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.auth.leases import shown_incarnation
from longshore.server.served import Served

_READ = {SCOPE: (Scope.READ, Scope.WORK, Scope.SUBMIT)}
_PRESENT, _ADMIN = {SCOPE: (Scope.WORK, Scope.SUBMIT)}, {SCOPE: (Scope.ADMIN,)}
_NO_PRESENCE = "does not know which workers are alive."
_NO_STATE = "cannot give orders to workers. Send them a signal instead."


class OrderRequest(wire.ApiRequest, frozen=True, kw_only=True):
    """An order to one worker, as the list of workers names it."""

    label: str
    incarnation: str
    order: WorkerOrder


class WorkerRoutes(Controller):
    """The routes about workers."""

    path = "/workers"
    tags = ("workers",)

    @get("/", opt=_READ)
    async def workers(self, request: ApiCall, served: ServedQueue) -> wire.WorkersAnswer:
        """Return the workers that are alive, and those that were not seen for longer than their lease."""
        return wire.WorkersAnswer(
            [
                wire.PresentWorkerBody(
                    each.worker.label, shown_incarnation(each.worker), each.info, each.unseen_seconds
                )
                for each in await _present(request.user, served)
            ]
        )

    @post("/orders", status_code=200, opt=_ADMIN)
    async def order(self, request: ApiCall, data: Body[OrderRequest], served: ServedQueue) -> dict[str, bool]:
        """Ask a worker to drain, or to stop at once. It obeys within seconds, or when it next renews its leases."""
        for each in await _present(request.user, served):
            if (each.worker.label, shown_incarnation(each.worker)) == (data.label, data.incarnation):
                state = require(served.queue, SharedState, _NO_STATE)
                await give_order(state, data.label, data.incarnation, data.order)
                return {"ordered": True}
        raise NotFoundError(f"There is no worker {ascii(data.label)[:100]} with this incarnation any more.")

    @post("/leave", status_code=200, opt=_PRESENT)
    async def leave(self, request: ApiCall, data: Body[wire.SignOffRequest], served: ServedQueue) -> dict[str, bool]:
        """Remove a worker from those that are alive."""
        worker = served.tokens.holder(data.worker.worker(), request.user.key.id)
        await require(served.queue, WorkerRegistry, _NO_PRESENCE).deregister(worker)
        return {"left": True}


async def _present(access: Access, served: Served) -> list[PresentWorker]:
    """Return the workers that may work on what a key reaches."""
    present = await require(served.queue, WorkerRegistry, _NO_PRESENCE).present_workers()
    runs = access.key.runs
    return [each for each in present if runs is None or any(works_on(each, run) for run in runs)]
