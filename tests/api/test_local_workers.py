"""`longshore.work` is `longshore work` as a function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import longshore
from longshore import AsyncKit, handler
from longshore.errors import LongshoreError, UsageError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    path, before = list(sys.path), structlog.get_config()
    yield
    sys.path[:] = path
    structlog.configure(**before)


def test_a_handler_of_the_program_works_off_a_run_and_the_report_says_why_it_stopped() -> None:
    @handler("page")
    async def page(url: str, kit: AsyncKit) -> int:
        return len(url)

    submitted = longshore.submit("page", ["https://a.org/1", "https://a.org/22"], run="monday")
    report = longshore.work(page, run="monday", until_done=True, profile="development", worker_id="me")
    assert (report.completed, report.failed, report.exit_code, report.worker) == (2, 0, 0, "me")
    assert "monday" in report.reason
    assert [job.result for job in longshore.results(submitted)] == [15, 16]


def test_a_handler_file_and_the_limits_are_taken_as_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(
        "from longshore import handler\n\n@handler('page')\ndef page(url, kit):\n    return len(url)\n"
    )
    longshore.submit("page", [f"https://a.org/{number}" for number in range(4)], run="monday")
    report = longshore.work("pages.py", max_work=3, concurrency=1)
    assert (report.completed, report.target, report.share) == (3, 3, 1.0)
    report = longshore.work("pages.py", max_empty_polls=1)
    assert (report.completed, report.exit_code) == (1, 0)


def test_what_cannot_begin_is_refused() -> None:
    with pytest.raises(UsageError, match="memory"):
        longshore.work("pages.py", queue="memory://")


def test_a_handler_file_that_works_when_it_is_imported_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text("import longshore\n\nlongshore.work('pages.py')\n")
    with pytest.raises(LongshoreError, match=r"is called while pages\.py is imported"):
        longshore.work("pages.py")
