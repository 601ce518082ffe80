"""The envelope: one format for the result of a finished job, successful or not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from longshore.errors import Failure, UsageError
from longshore.job import FINISHED, Job, State
from longshore.stored import LATEST

_CANCELLED = Failure("cancelled", "The job was cancelled", retryable=False)


def envelope(job: Job) -> dict[str, Any]:
    """Return the result of a finished job as a dict that always has all keys.

    `success data message error error_type retryable traceback`, and `metadata` with `processed_at` (or `failed_at`, an
    ISO time in UTC), `worker_id`, `processing_time` in seconds and, if known, `handler_version`. A result stored as
    `{"success": true, "data": ...}` is unwrapped. Raises `UsageError` for a job that is not finished.
    """
    if job.state not in FINISHED:
        raise UsageError(f"Job {job.id} is {job.state}: it has no result until it is finished.")
    completed = job.state is State.COMPLETED
    data, message = _unwrapped(job.result) if completed else (None, "")
    failure = None if completed else _CANCELLED if job.state is State.CANCELLED else job.failure
    version = job.handler_version or (failure.handler_version if failure is not None else "")
    # A file of a queue that others have edited may have times that no calendar has.
    at = None if job.settled_at is None else min(max(job.settled_at, 0.0), LATEST)
    ended = None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
    return {
        "success": completed,
        "data": data,
        "message": message,
        "error": failure and failure.message,
        "error_type": failure and failure.error_type,
        "retryable": failure is not None and failure.retryable,
        "traceback": (failure and failure.traceback) or None,
        "metadata": {
            "processed_at" if completed else "failed_at": ended,
            "worker_id": job.worker,
            "processing_time": job.seconds,
        }
        | ({"handler_version": version} if version else {}),
    }


def _unwrapped(result: Any) -> tuple[Any, str]:
    if isinstance(result, dict) and result.get("success") is True and result.keys() <= {"success", "data", "message"}:
        return result.get("data"), str(result.get("message") or "")
    return result, ""
