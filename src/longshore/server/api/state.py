"""Statistics, workers, shared state, and what only some media have."""

from __future__ import annotations

import msgspec
from litestar import Controller, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.params import FromQuery
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError, UsageError
from longshore.extensions.archive import Archives
from longshore.extensions.claim_stats import ClaimStats
from longshore.extensions.find import require
from longshore.extensions.published_code import PARTS, PUBLISHED
from longshore.extensions.rejected import KeepsRejected, RejectedFiles
from longshore.extensions.shared_state import Entries, SharedState
from longshore.media.http import wire
from longshore.pacing.store_shared import CLOSED, FORGOTTEN, PACE
from longshore.runs.submit.repeated_scan import SCANS
from longshore.runs.submit.submission import RUN_IDS
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.guard import SCOPE, WRITES
from longshore.server.auth.keys import Scope
from longshore.server.auth.reached_entries import check_entries, reached_entries
from longshore.server.bulk_actions import NAMESPACE as BULK_ACTIONS
from longshore.wrappers.growth_limits import LIMITS

_READ = {SCOPE: (Scope.READ, Scope.WORK, Scope.SUBMIT)}
_LOOK_UP = {**_READ, WRITES: False}
_PRESENT, _ADMIN = {SCOPE: (Scope.WORK, Scope.SUBMIT)}, {SCOPE: (Scope.ADMIN,)}
_WRITERS = {
    PACE: Scope.WORK,
    CLOSED: Scope.WORK,
    FORGOTTEN: Scope.WORK,
    RUN_IDS: Scope.SUBMIT,
    LIMITS: Scope.SUBMIT,
    SCANS: Scope.SUBMIT,
}
"""The scope that may write each namespace: how fast hosts are asked, which runs there are and how far they may grow.
All other namespaces (schedules, pauses, …) are for admins."""
_READERS = {PUBLISHED: Scope.WORK, PARTS: Scope.WORK, BULK_ACTIONS: Scope.ADMIN}
"""The scope that may read each namespace that is not for all keys: the code that workers run, and what people did."""
_NO_STATE = "has no shared state."
_MOST_VALUE_BYTES = 1024 * 1024
"""Everyone reads all entries of a namespace, again and again."""


class StateRoutes(Controller):
    """The routes of everything that is not a job."""

    tags = ("state",)

    @get("/stats", opt=_READ)
    async def stats(self, request: ApiCall, served: ServedQueue, run: FromQuery[str | None] = None) -> wire.StatsAnswer:
        """Return the number of jobs in each state for each run, kind and partition."""
        counts = await served.queue.stats(run)
        return wire.StatsAnswer([count for count in counts if request.user.reaches(count)])

    @post("/state/read", status_code=200, opt=_LOOK_UP)
    async def read_entries(self, request: ApiCall, data: Body[wire.ReadRequest], served: ServedQueue) -> Entries:
        """Return shared entries."""
        if data.namespace in _READERS and not request.user.may(_READERS[data.namespace]):
            needed = _READERS[data.namespace]
            raise PermissionDeniedException(f"Reading the shared state '{data.namespace}' needs the scope {needed}.")
        found = await require(served.queue, SharedState, _NO_STATE).read_entries(data.namespace, data.names)
        return reached_entries(request.user, data.namespace, data.names, found)

    @post("/state/swap", status_code=200, opt=_PRESENT)
    async def swap_entries(
        self, request: ApiCall, data: Body[wire.SwapRequest], served: ServedQueue
    ) -> wire.SwapAnswer:
        """Write shared entries, each if its version is still the given one."""
        if not request.user.may(_WRITERS.get(data.namespace, Scope.ADMIN)):
            raise PermissionDeniedException(f"The key may not change the shared state '{data.namespace}'.")
        _check_bounds(data)
        check_entries(request.user, data.namespace, data.entries)
        versions = await require(served.queue, SharedState, _NO_STATE).swap_entries(data.namespace, data.entries)
        return wire.SwapAnswer(versions)

    @get("/archive", opt=_READ)
    async def archived(self, request: ApiCall, served: ServedQueue) -> wire.ArchiveAnswer:
        """Return what is in the archive, month by month."""
        if request.user.is_limited:
            raise NotFoundError("This key is for some runs or kinds only, and the archive has jobs of all.")
        return wire.ArchiveAnswer(await require(served.queue, Archives, "has no archive.").archived())

    @post("/archive/forget-history", status_code=200, opt=_ADMIN)
    async def forget_history(self, served: ServedQueue) -> dict[str, bool]:
        """Delete the history of the storage; jobs and results stay."""
        await require(served.queue, Archives, "has no archive.").forget_history()
        return {"forgotten": True}

    @get("/rejected", opt=_READ)
    async def rejected(self, request: ApiCall, served: ServedQueue, run: FromQuery[str | None] = None) -> RejectedFiles:
        """Return how many files of the queue are no jobs, and their folder; with `run`, those of that run."""
        if run is not None and not request.user.reaches_run(run):
            raise NotFoundError(f"There is no run {ascii(run)[:60]} for this key.")
        keeper = require(served.queue, KeepsRejected, "rejects no files.")
        runs = request.user.runs if run is None else None
        found = [await keeper.rejected(each) for each in ((run,) if runs is None else sorted(runs))]
        return RejectedFiles(sum(each.count for each in found), found[0].where if found else "")

    @get("/claim-success-rate", opt=_READ)
    async def claim_success_rate(self, served: ServedQueue) -> wire.RateAnswer:
        """Return the share of claims that were not lost to a faster worker."""
        return wire.RateAnswer(await require(served.queue, ClaimStats, "loses no claims.").claim_success_rate())

    @get("/capabilities", opt=_READ)
    async def capabilities(self, served: ServedQueue) -> wire.Capabilities:
        """Return the version, the limits and the traits of this server."""
        return served.capabilities


def _check_bounds(data: wire.SwapRequest) -> None:
    if len(data.namespace) > wire.LONGEST_NAME:
        raise UsageError(
            f"The name of a namespace may have {wire.LONGEST_NAME:,} characters, not {len(data.namespace):,}."
        )
    for each in data.entries:
        if len(each.name) > wire.LONGEST_KEY:
            raise UsageError(
                f"The name of a shared entry may have {wire.LONGEST_KEY:,} characters, not {len(each.name):,}."
            )
        if (size := len(msgspec.json.encode(each.value))) > _MOST_VALUE_BYTES:
            raise UsageError(f"A shared entry may have {_MOST_VALUE_BYTES:,} bytes as JSON, not {size:,}.")
