"""Statistics, workers, shared state, and what only some media have."""

from __future__ import annotations

from litestar import Controller, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.params import FromQuery
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError
from longshore.extensions.archive import Archives
from longshore.extensions.claim_stats import ClaimStats
from longshore.extensions.find import require
from longshore.extensions.published_code import PARTS, PINS, PUBLISHED
from longshore.extensions.rejected import KeepsRejected, RejectedFiles
from longshore.extensions.shared_state import Entries, SharedState, StateEntry
from longshore.media.http import wire
from longshore.pacing.store_shared import CLOSED, FORGOTTEN, PACE
from longshore.runs.schedules.schedule import NAMESPACE as SCHEDULES
from longshore.runs.submit.repeated_scan import SCANS
from longshore.runs.submit.submission import RUN_IDS
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.bulk_actions import NAMESPACE as BULK_ACTIONS
from longshore.wrappers.differing_duplicates import DIFFERING
from longshore.wrappers.growth_limits import LEFT_OUT, LIMITS
from longshore.wrappers.job_quota import QUOTA
from longshore.wrappers.paused import EVERYTHING, PAUSED

_READ = {SCOPE: (Scope.READ, Scope.WORK, Scope.SUBMIT)}
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
_READERS = {PUBLISHED: Scope.WORK, PARTS: Scope.WORK}
"""The scope that may read each namespace that is not for all keys: the code that workers run."""
_BY_RUN = frozenset({PAUSED, PINS, LIMITS, LEFT_OUT, DIFFERING, QUOTA})
"""The namespaces whose entries are named after runs."""
_OF_ALL = frozenset({SCHEDULES, BULK_ACTIONS})
"""The namespaces whose entries tell of jobs of any run and kind."""
_NO_STATE = "has no shared state."


class StateRoutes(Controller):
    """The routes of everything that is not a job."""

    tags = ("state",)

    @get("/stats", opt=_READ)
    async def stats(self, request: ApiCall, served: ServedQueue, run: FromQuery[str | None] = None) -> wire.StatsAnswer:
        """Return the number of jobs in each state for each run, kind and partition."""
        counts = await served.queue.stats(run)
        return wire.StatsAnswer([count for count in counts if request.user.reaches(count)])

    @post("/state/read", status_code=200, opt=_READ)
    async def read_entries(self, request: ApiCall, data: Body[wire.ReadRequest], served: ServedQueue) -> Entries:
        """Return shared entries."""
        if data.namespace in _READERS and not request.user.may(_READERS[data.namespace]):
            raise PermissionDeniedException(f"Reading the shared state '{data.namespace}' needs a key for work.")
        found = await require(served.queue, SharedState, _NO_STATE).read_entries(data.namespace, data.names)
        return Entries(found.now, tuple(each for each in found.entries if _reaches(request.user, data.namespace, each)))

    @post("/state/swap", status_code=200, opt=_PRESENT)
    async def swap_entries(
        self, request: ApiCall, data: Body[wire.SwapRequest], served: ServedQueue
    ) -> wire.SwapAnswer:
        """Write shared entries, each if its version is still the given one."""
        if not request.user.may(_WRITERS.get(data.namespace, Scope.ADMIN)):
            raise PermissionDeniedException(f"The key may not change the shared state '{data.namespace}'.")
        if outside := [each for each in data.entries if not _reaches(request.user, data.namespace, each)]:
            raise NotFoundError(f"There is no run {outside[0].name[:100]!a} for this key.")
        versions = await require(served.queue, SharedState, _NO_STATE).swap_entries(data.namespace, data.entries)
        return wire.SwapAnswer(versions)

    @get("/archive", opt=_READ)
    async def archived(self, served: ServedQueue) -> wire.ArchiveAnswer:
        """Return what is in the archive, month by month."""
        return wire.ArchiveAnswer(await require(served.queue, Archives, "has no archive.").archived())

    @post("/archive/forget-history", status_code=200, opt=_ADMIN)
    async def forget_history(self, served: ServedQueue) -> dict[str, bool]:
        """Delete the history of the storage; jobs and results stay."""
        await require(served.queue, Archives, "has no archive.").forget_history()
        return {"forgotten": True}

    @get("/rejected", opt=_READ)
    async def rejected(self, served: ServedQueue, run: FromQuery[str | None] = None) -> RejectedFiles:
        """Return how many files of the queue are no jobs, and their folder; with `run`, those of that run."""
        return await require(served.queue, KeepsRejected, "rejects no files.").rejected(run)

    @get("/claim-success-rate", opt=_READ)
    async def claim_success_rate(self, served: ServedQueue) -> wire.RateAnswer:
        """Return the share of claims that were not lost to a faster worker."""
        return wire.RateAnswer(await require(served.queue, ClaimStats, "loses no claims.").claim_success_rate())

    @get("/capabilities", opt=_READ)
    async def capabilities(self, served: ServedQueue) -> wire.Capabilities:
        """Return the version, the limits and the traits of this server."""
        return served.capabilities


def _reaches(access: Access, namespace: str, entry: StateEntry) -> bool:
    """Return whether an entry is within the runs and kinds of a key."""
    if namespace in _OF_ALL:
        return access.key.runs is None and access.key.kinds is None
    return namespace not in _BY_RUN or entry.name == EVERYTHING or access.reaches_run(entry.name)
