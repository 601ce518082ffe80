"""The hosts that jobs may reach on a private network: those that submitted jobs name, not those that pages name."""

from __future__ import annotations

import pytest

from longshore.errors import ProcessingError, QueueUnavailableError
from longshore.job import Job, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection
from longshore.worker.kit.own_hosts import RunHosts, own_hosts

INTRANET, INTERNET, VICTIM = "http://intranet.test/start", "https://site.test/", "http://10.0.0.7:9200/_all"


async def crawled() -> tuple[Queue, dict[str, Job]]:
    """Return a queue and its jobs by URL: two submitted ones, each with follow-on jobs that its page named."""
    queue = await open_queue("memory://own-hosts")
    await queue.submit([new_job("page", {"url": url}, run="r") for url in (INTRANET, INTERNET)])
    follow = [f"{INTRANET}/next", VICTIM]
    for lease in await queue.claim(Want(worker=WorkerId.new("w"), limit=2)):
        jobs = tuple(new_job("page", {"url": url}) for url in follow)
        await queue.settle([Settlement(lease, Completed(None, jobs))])
    found = await queue.jobs(Selection(run="r"))
    return queue, {str(job.payload["url"]): job for job in found}


async def test_a_crawl_of_an_intranet_goes_on_and_a_page_names_no_other_host() -> None:
    queue, jobs = await crawled()
    hosts = RunHosts(queue)
    assert await own_hosts(jobs[INTRANET], hosts.is_submitted).include("intranet.test")
    assert await own_hosts(jobs[f"{INTRANET}/next"], hosts.is_submitted).include("intranet.test")
    assert jobs[VICTIM].depth == 1
    assert not await own_hosts(jobs[VICTIM], hosts.is_submitted).include("10.0.0.7:9200")
    # Another host than that of its own URL, submitted or not, is not the job's own.
    assert not await own_hosts(jobs[f"{INTRANET}/next"], hosts.is_submitted).include("site.test")
    await queue.close()


async def test_every_url_in_the_payload_of_a_submitted_job_is_its_own() -> None:
    payload = {"from": "http://a.test/", "pages": ["http://b.test:81/x", {"c": "https://c.test"}], "n": 1}
    job = Job(id="1", run="r", kind="k", key="k", payload=payload)
    hosts = own_hosts(job, RunHosts(await open_queue("memory://payload")).is_submitted)
    assert [await hosts.include(host) for host in ("a.test", "b.test:81", "c.test", "b.test")] == [True] * 3 + [False]


async def test_a_queue_that_does_not_answer_costs_a_retry_and_refuses_no_job_for_good() -> None:
    class Silent:
        async def jobs(self, selection: Selection, *, limit: int) -> list[Job]:
            raise QueueUnavailableError("away")

    with pytest.raises(ProcessingError) as caught:
        await RunHosts(Silent()).is_submitted("r", "intranet.test")  # type: ignore[arg-type]
    assert caught.value.retryable
