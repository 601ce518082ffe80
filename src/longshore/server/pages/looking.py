"""The pages to look at: runs, one run, failures, hosts, workers, one job."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Response, get
from litestar.params import FromQuery

from longshore.errors import NotFoundError
from longshore.extensions.traces import SCREENSHOT
from longshore.runs.control.job_filter import JobFilter
from longshore.server.api.bundles import attachment
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.reached_queue import reached
from longshore.server.pages.actions import bulk_of
from longshore.server.pages.addresses import run_of
from longshore.server.pages.job_bundle import SANDBOX, bundle_entry_of, bundle_of
from longshore.server.pages.job_context import detail_in
from longshore.server.pages.job_list import JobConditions, choices_of, find_page
from longshore.server.pages.render import is_part, respond
from longshore.server.pages.stream import READ, stream_address
from longshore.server.pages.views import LiveParts, ViewName


class LookingRoutes(Controller):
    """The routes of pages that only show."""

    include_in_schema = False
    opt = READ

    @get("/")
    async def overview(
        self, request: ApiCall, live: LiveParts, q: FromQuery[str] = "", page: FromQuery[int] = 1
    ) -> Response[bytes]:
        """Return the list of runs."""
        return await _page(request, live, ViewName(page="overview", text=q, number=page))

    @get("/failures")
    async def failures(self, request: ApiCall, live: LiveParts) -> Response[bytes]:
        """Return the failures of all runs, by kind."""
        return await _page(request, live, ViewName(page="failures"))

    @get("/hosts")
    async def hosts(self, request: ApiCall, live: LiveParts) -> Response[bytes]:
        """Return the hosts that jobs wait for."""
        return await _page(request, live, ViewName(page="hosts"))

    @get("/workers")
    async def workers(self, request: ApiCall, live: LiveParts) -> Response[bytes]:
        """Return the workers."""
        return await _page(request, live, ViewName(page="workers"))

    @get("/run")
    async def run(self, request: ApiCall, live: LiveParts, name: FromQuery[str]) -> Response[bytes]:
        """Return one run."""
        return await _page(request, live, ViewName(page="run", run=run_of(name)))

    @get("/run/records")
    async def records(self, request: ApiCall, live: LiveParts, name: FromQuery[str]) -> Response[bytes]:
        """Return the records of a run: how many were kept and rejected, and how many have each field."""
        run = run_of(name)
        found = await live.records.of(run, request.user)
        template = "parts/records.html" if is_part(request) else "records.html"
        return respond(request, template, {"run": run, "records": found})

    @get("/jobs")
    async def jobs(self, request: ApiCall, served: ServedQueue, after: FromQuery[str] = "") -> Response[bytes]:
        """Return a page of the jobs that match."""
        conditions = JobConditions.of(request.query_params)
        wanted = JobFilter(
            selection=conditions.body().selection(),
            hosts=frozenset({conditions.host}) if conditions.host else None,
            text=conditions.q,
        )
        queue = reached(served.queue, request.user)
        context = {
            "conditions": conditions,
            "found": await find_page(queue, wanted, after),
            "after": after,
            **await choices_of(queue, request.user, conditions.run),
            "bulk": await bulk_of(request, served, request.query_params.get("bulk", "")),
        }
        return respond(request, "jobs.html", context)

    @get("/job")
    async def job(self, request: ApiCall, live: LiveParts, served: ServedQueue) -> Response[bytes]:
        """Return one job."""
        name = ViewName(page="job", job=request.query_params.get("id", ""))
        job = detail_in(await live.views.topic(name, request.user).at_once()).job
        return await _page(request, live, name, bundle=await bundle_of(served.traces, job))

    @get("/job/records")
    async def job_records(self, request: ApiCall, live: LiveParts) -> Response[bytes]:
        """Return the records of one job."""
        name = ViewName(page="job", job=request.query_params.get("id", ""))
        job = detail_in(await live.views.topic(name, request.user).at_once()).job
        template = "parts/job_records.html" if is_part(request) else "job_records.html"
        return respond(request, template, {"job": job, "records": await live.records.of_job(job)})

    @get("/job/file")
    async def file(
        self, request: ApiCall, live: LiveParts, served: ServedQueue, name: FromQuery[str]
    ) -> Response[bytes]:
        """Return a file of a job's failure bundle: as a download, or into a frame that can do nothing."""
        view = ViewName(page="job", job=request.query_params.get("id", ""))
        job = detail_in(await live.views.topic(view, request.user).at_once()).job
        bundle = await bundle_entry_of(served.traces, job)
        if bundle is None:
            raise NotFoundError("Of this job no failure bundle is kept.")
        content = await served.traces.bundle_file(bundle.name, name)
        if name == SCREENSHOT:
            return Response(content, media_type="image/png", headers={"Content-Security-Policy": SANDBOX})
        if "frame" in request.query_params and name.endswith(".html"):
            framed = {"Content-Security-Policy": f"{SANDBOX}; frame-ancestors 'self'", "X-Frame-Options": "SAMEORIGIN"}
            return Response(content, media_type="text/html", headers=framed)
        return attachment(content, name)


async def _page(request: ApiCall, live: LiveParts, name: ViewName, **more: Any) -> Response[bytes]:
    view = live.views.new(name, request.user)
    snapshot = await view.topic.at_once()
    if view.topic.gone:
        raise NotFoundError(view.topic.gone)
    context = view.context(snapshot) | {
        "live_address": stream_address(name, live.reader.life, snapshot.number),
        "bulk": await bulk_of(request, live.served, request.query_params.get("bulk", "")),
        **more,
    }
    return respond(request, f"{name.page}.html", context)
