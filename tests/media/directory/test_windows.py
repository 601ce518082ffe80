"""A directory queue uses nothing that Windows lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.errors import QueueError
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.directory import open_queue
from longshore.media.directory.files import disk
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection


async def test_a_job_goes_from_submission_to_its_result(windows: None, tmp_path: Path) -> None:
    queue = await open_queue(f"dir://{tmp_path / 'queue'}", ManualClock())
    await queue.submit([new_job("page", {"n": 1}), new_job("page", {"n": 2})])
    [lease] = await queue.claim(Want(worker=WorkerId.new()))
    assert await queue.settle([Settlement(lease, Completed({"title": "x"}))]) == [True]
    states = [job.state for job in await queue.jobs(Selection())]
    assert sorted(states) == sorted([State.COMPLETED, State.PENDING])
    await queue.close()


@pytest.mark.parametrize("act", [disk.read, lambda path: disk.write(path, b""), lambda path: disk.rewrite(path, b"")])
def test_a_symbolic_link_in_a_queue_is_not_followed(windows: None, tmp_path: Path, act: object) -> None:
    (tmp_path / "other").write_bytes(b"not ours")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(QueueError), disk.translated_errors(str(tmp_path)):
        assert callable(act)
        act(str(tmp_path / "link"))
    assert (tmp_path / "other").read_bytes() == b"not ours"
