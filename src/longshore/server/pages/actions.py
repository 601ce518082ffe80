"""Actions of people: each is shown with its count and confirmed, then carried out, and its progress is shown.

`/confirm` only asks, `/act` acts. Both take the action and a filter, in the words of the address of a list of jobs.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Controller, Response, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.params import FromQuery
from litestar.response import Redirect

from longshore.errors import NotFoundError, UsageError
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerRegistry
from longshore.extensions.shared_state import SharedState
from longshore.extensions.worker_orders import WorkerOrder, give_order
from longshore.runs.control.bulk_action import COUNTED, BulkAction, size_of
from longshore.runs.control.pause import EVERYTHING, pause, resume
from longshore.server.api.bulk_actions import BulkActionRequest, checked_filter, creator_of
from longshore.server.api.request import ApiCall, ServedQueue, form_of
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE, WRITES
from longshore.server.auth.keys import Scope
from longshore.server.auth.leases import shown_incarnation
from longshore.server.pages.addresses import local_path, run_of
from longshore.server.pages.job_list import JobConditions
from longshore.server.pages.render import is_part, respond
from longshore.server.pages.views import LiveParts
from longshore.server.served import Served
from longshore.system.first_of import first_of
from longshore.ui.words import counted

_ACT = {SCOPE: (Scope.SUBMIT,)}
_ASK = {**_ACT, WRITES: True}
_BULK = frozenset(BulkAction) - {BulkAction.PRUNE}
_DANGEROUS = frozenset({"cancel"})
_PATIENCE = 0.3
_EFFECTS = {
    "retry": "They get all their attempts again, and workers take them up at once.",
    "cancel": "Workers stop working on those under way. Cancelled jobs can be retried later.",
    "release": "They are taken from their workers and are pending again. The interrupted attempts do not count.",
    "pause": "Workers finish what they have and take no new jobs, within seconds.",
    "drain": "The worker finishes what it has, takes no new jobs, and ends.",
    "resume": "Workers take jobs again, within seconds.",
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """An action with its filter, from an address or a form."""

    verb: str
    conditions: JobConditions
    worker: str = ""
    """The label of the worker to drain."""
    ids: tuple[str, ...] = ()
    everything: bool = False
    """Whether all jobs that match the filter are meant, and not only those that were selected."""
    picked: bool = False
    """Whether jobs were to be selected one by one."""
    back: str = "/"

    @classmethod
    def of(cls, fields: list[tuple[str, str]]) -> Asked:
        """Return the action in the fields of a form or an address."""
        given = dict(fields)
        everything = given.get("all") == "1"
        ids = () if everything else tuple(dict.fromkeys(value for name, value in fields if name == "id" and value))
        return cls(
            verb=given.get("verb", ""),
            conditions=JobConditions.of(given),
            worker=given.get("worker", ""),
            ids=ids,
            everything=everything,
            picked=given.get("picked") == "1",
            back=local_path(given.get("back", "/")),
        )

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields of the form that confirms it."""
        return [
            ("verb", self.verb),
            *self.conditions.given.items(),
            *(("id", each) for each in self.ids),
            ("worker", self.worker),
            ("all", "1" if self.everything else ""),
            ("back", self.back),
        ]

    def request(self) -> BulkActionRequest:
        """Return the bulk action. Raise `UsageError` if it is none, or its filter is wrong."""
        if self.verb not in _BULK:
            raise UsageError("There is no such action.")
        if self.picked and not self.ids:
            raise UsageError("No job is selected. Select some, or choose the action on all that match.")
        # Jobs that are chosen one by one may be in states that the action does not change; they are skipped.
        conditions = msgspec.structs.replace(self.conditions, state="") if self.ids else self.conditions
        return BulkActionRequest(action=BulkAction(self.verb), where=conditions.body(self.ids))


class ActionRoutes(Controller):
    """The routes of actions."""

    include_in_schema = False
    opt = _ACT

    @get("/confirm", opt=_ASK)
    async def confirm(self, request: ApiCall, served: ServedQueue) -> Response[bytes]:
        """Return the question whether an action is meant, with the number of jobs that it changes."""
        asked = Asked.of(list(request.query_params.multi_items()))
        question = await _question(request.user, served, asked)
        context = {
            "asked": asked,
            "danger": asked.verb in _DANGEROUS,
            "effect": _EFFECTS.get(asked.verb, ""),
            **question,
        }
        return respond(request, "parts/confirm.html" if is_part(request) else "confirm.html", context)

    @post("/act")
    async def act(self, request: ApiCall, served: ServedQueue, live: LiveParts) -> Response[None]:
        """Carry out an action, and lead back to the page."""
        asked = Asked.of(await form_of(request))
        if asked.verb in {"pause", "resume"}:
            run = _pausable(request.user, asked)
            await (pause if asked.verb == "pause" else resume)(served.queue, run)
            live.reader.expire()
            return Redirect(asked.back, status_code=303)
        if asked.verb == "drain":
            await drain(served, request.user, asked.worker)
            return Redirect(asked.back, status_code=303)
        wanted = await checked_filter(request.user, asked.request(), served)
        begun = await served.bulk_actions.create(BulkAction(asked.verb), wanted, request.user.key.id)
        # Most actions end at once: then the page that follows shows their effect.
        await first_of(served.bulk_actions.ended(begun.id), served.clock.sleep(_PATIENCE))
        live.reader.expire()
        return Redirect(with_bulk(asked.back, begun.id), status_code=303)

    @get("/bulk")
    async def bulk(self, request: ApiCall, served: ServedQueue, bulk: FromQuery[str]) -> Response[bytes]:
        """Return how far a bulk action is."""
        return respond(request, "parts/bulk.html", {"bulk": await bulk_of(request, served, bulk)})

    @post("/bulk/abort")
    async def abort(self, request: ApiCall, served: ServedQueue) -> Response[None]:
        """Stop a bulk action."""
        fields = dict(await form_of(request))
        stopped = await served.bulk_actions.abort(fields.get("bulk", ""), creator_of(request.user))
        return Redirect(with_bulk(local_path(fields.get("back", "/")), stopped.id), status_code=303)


async def bulk_of(request: ApiCall, served: Served, bulk_id: str) -> Any:
    """Return a bulk action that the person may see; None if there is none."""
    try:
        return await served.bulk_actions.get(bulk_id, creator_of(request.user)) if bulk_id else None
    except NotFoundError:
        return None


def with_bulk(back: str, bulk_id: str) -> str:
    """Return the address of a page that shows the progress of a bulk action."""
    path, _, query = back.partition("?")
    kept = [each for each in query.split("&") if each and not each.startswith("bulk=")]
    return f"{path}?{'&'.join([*kept, f'bulk={bulk_id}'])}"


async def _question(access: Access, served: Served, asked: Asked) -> dict[str, Any]:
    if asked.verb in {"pause", "resume"}:
        run = _pausable(access, asked)
        what = "everything" if run == EVERYTHING else f"the run {run or 'without a name'}"
        return {"question": f"{asked.verb.capitalize()} {what}?", "button": asked.verb.capitalize(), "jobs": 1}
    if asked.verb == "drain":
        _admin(access, "drain workers")
        return {"question": f"Drain {asked.worker}?", "button": "Drain", "jobs": 1}
    wanted = await checked_filter(access, asked.request(), served)
    size = await size_of(served.queue, wanted, most=COUNTED)
    jobs = f"more than {counted(size.jobs, 'job')}" if size.more else counted(size.jobs, "job")
    return {
        "question": f"{asked.verb.capitalize()} {jobs}?",
        "button": f"{asked.verb.capitalize()} {jobs}",
        "jobs": size.jobs,
    }


def _pausable(access: Access, asked: Asked) -> str:
    """Return the run to pause or to resume. Raise an error if this person may not."""
    _admin(access, "pause and resume runs")
    if not asked.conditions.run:
        raise UsageError("Name the run.")
    run = asked.conditions.run
    return EVERYTHING if run == EVERYTHING else run_of(run)


def _admin(access: Access, action: str) -> None:
    if not access.may(Scope.ADMIN):
        raise PermissionDeniedException(f"Only an admin may {action}.")


async def drain(served: Served, access: Access, label: str) -> None:
    """Ask a worker to finish what it has and to end. Raise `NotFoundError` if it is not there."""
    _admin(access, "drain workers")
    present = await require(served.queue, WorkerRegistry, "does not know which workers are alive.").present_workers()
    state = require(served.queue, SharedState, "cannot give orders to workers. Send them a signal instead.")
    found = [shown_incarnation(each.worker) for each in present if each.worker.label == label]
    for incarnation in found:
        await give_order(state, label, incarnation, WorkerOrder.DRAIN)
    if not found:
        raise NotFoundError(f"There is no worker {ascii(label)[:100]} any more.")
