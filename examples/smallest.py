"""The smallest handler file: a function for one kind of job."""

from longshore import Job, handler


@handler("page", timeout=30, retries=3)
async def page(job: Job) -> dict[str, int]:
    return {"length": len(job.payload["url"])}
