"""The kit: cheap to make, its log bound to the job."""

from __future__ import annotations

from unittest.mock import Mock

import structlog
from structlog.testing import capture_logs

from longshore import Kit
from longshore.handlers.kit import JustHttp
from longshore.testing import make_job


def test_lines_of_the_kit_carry_worker_and_job() -> None:
    with capture_logs() as lines:
        kit = Kit(structlog.get_logger().bind(worker_id="w1"), JustHttp(), make_job({}, kind="page"))
        kit.log.info("parsed", rows=12)
    assert lines == [
        {"event": "parsed", "rows": 12, "worker_id": "w1", "job_id": "1", "kind": "page", "log_level": "info"}
    ]


def test_the_log_is_bound_once_and_only_when_asked_for() -> None:
    log = Mock(spec=["bind"])
    kit = Kit(log, JustHttp(), make_job({}))
    assert log.bind.call_count == 0
    assert kit.log is kit.log
    assert log.bind.call_count == 1
