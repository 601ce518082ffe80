"""What a job must be like to be taken over."""

from __future__ import annotations

import pytest

from longshore.errors import Failure, QueueError
from longshore.job import Attempt, Job
from longshore.media.sqlite import SqliteQueue
from longshore.queue import Selection
from longshore.transfer import Carried


@pytest.mark.parametrize("epochs", [(2, 1), (1, 1), (0,), (4,)])
async def test_a_history_that_no_queue_can_have_written_is_refused_by_name(
    queue: SqliteQueue, epochs: tuple[int, ...]
) -> None:
    history = [Attempt(epoch=n, worker="w", ended_at=1.0, failure=Failure("crash", "gone")) for n in epochs]
    good, bad = (Job(id="", run="r", kind="page", key=key, payload={}, epoch=3) for key in ("good", "bad"))
    with pytest.raises(QueueError, match="r/page/bad"):
        await queue.take_over([Carried(good), Carried(bad, tuple(history))])
    assert await queue.jobs(Selection()) == []
