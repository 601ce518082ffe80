"""Refusing: a value that not every medium can store is refused with its name, and nothing of it is written.

Values that their constructors refuse (`NewJob`, `Carried`, outcomes, `Want`, `Selection`) are not tested here. These
tests also check the opposite: a job with values just within the limits passes through all states on every medium.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from longshore.conformance.scene import (
    ALL,
    KIND,
    LEASE,
    RUN,
    Scene,
    claim,
    claim_one,
    failure,
    find,
    job,
    jobs,
    listed,
    offered,
    seen,
    settle,
)
from longshore.errors import Failure, UsageError
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import Attempt, Job, State
from longshore.lease import WorkerId
from longshore.outcome import Completed, Failed, Released, Settlement, Snoozed
from longshore.queue import Queue, Selection, Submitted
from longshore.stored import BIGGEST, DEEPEST, LATEST, LONGEST, MOST

HALF = "\ud800"
"""A lone surrogate: half of a character."""


def nested(deep: int) -> Any:
    """Return lists and dicts, nested `deep` levels."""
    value: Any = "[{"
    for level in range(deep):
        value = [value] if level % 2 else {"in": value}
    return value


UNFIT: dict[str, Any] = {
    "no JSON": object(),
    "half a character": HALF,
    "half a character as a name": {HALF: 1},
    "nested too deep": nested(DEEPEST + 1),
    "nested far too deep": nested(5000),
    "a part that is no JSON": {"page": msgspec.Raw(b"<html>")},
    "a part that is no text": {"page": msgspec.Raw(b'"\xff"')},
}
UNFIT_RAW: dict[str, msgspec.Raw] = {
    "raw, nothing": msgspec.Raw(b""),
    "raw, no JSON": msgspec.Raw(b"<html>"),
    "raw, cut off": msgspec.Raw(b'{"a": [1'),
    "raw, two values": msgspec.Raw(b"1 2"),
    "raw, no text": msgspec.Raw(b'"\xff"'),
    "raw, half a character": msgspec.Raw(b'"\\ud800 and more"'),
    "raw, no finite number": msgspec.Raw(b"[1e999]"),
    "raw, nested too deep": msgspec.Raw(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1)),
    "raw, nested far too deep": msgspec.Raw(b"[" * 5000 + b"]" * 5000),
}
RESULTS = UNFIT | UNFIT_RAW
NO_IDS = ["abc", "-1", "1.0", "１", "../x", " ", "9" * 40, "a\0b"]


class RefusingTests(Scene):
    @pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT.keys())
    async def test_a_payload_that_could_not_be_read_back_is_not_submitted(self, queue: Queue, value: Any) -> None:
        with pytest.raises(UsageError, match="payload"):
            await queue.submit([job("a"), job("b", payload=WorkerInfo(machine=value)), job("c")])
        assert await listed(queue) == []
        assert await queue.submit(jobs("a", "b", "c")) == Submitted(new=3, duplicates=0)

    async def test_one_bad_payload_among_very_many_is_refused_with_all_of_them(self, queue: Queue) -> None:
        batch = [job(f"{n:04}") for n in range(1500)]
        with pytest.raises(UsageError, match="payload"):
            await queue.submit([*batch, job("bad", payload={"n": HALF})])
        assert await listed(queue) == []
        assert (await queue.submit(batch)).new == 1500

    @pytest.mark.parametrize("value", RESULTS.values(), ids=RESULTS.keys())
    async def test_a_result_that_could_not_be_read_back_is_not_written(self, queue: Queue, value: Any) -> None:
        await queue.submit(jobs("a", "b"))
        first, second = await claim(queue)
        before = await seen(queue)
        with pytest.raises(UsageError, match="result"):
            await queue.settle([Settlement(first, Completed("fine")), Settlement(second, Completed(value))])
        assert await seen(queue) == before
        assert await queue.settle([Settlement(each, Released()) for each in (first, second)]) == [True, True]

    @pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT.keys())
    async def test_a_follow_on_job_that_could_not_be_read_back_holds_up_its_settlement(
        self, queue: Queue, value: Any
    ) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        with pytest.raises(UsageError, match="payload"):
            await settle(queue, lease, Completed("fine", (job("b"), job("c", payload=WorkerInfo(machine=value)))))
        assert await listed(queue) == ["a"]
        assert await settle(queue, lease, Completed("fine", (job("b"),)))

    @pytest.mark.parametrize("field", ["error_type", "message", "exception", "traceback"])
    async def test_a_failure_that_could_not_be_read_back_is_not_written(self, queue: Queue, field: str) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        unfit = msgspec.structs.replace(failure(), **{field: HALF})
        with pytest.raises(UsageError, match="failure"):
            await settle(queue, lease, Failed(unfit))
        assert await queue.history(lease.job.id) == []
        assert await settle(queue, lease, Failed(failure()))

    @pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT.keys())
    async def test_info_that_could_not_be_read_back_registers_no_worker(self, queue: Queue, value: Any) -> None:
        registry = offered(queue, WorkerRegistry)
        with pytest.raises(UsageError):
            await registry.register(WorkerId.new("anna"), LEASE, WorkerInfo(machine=value))
        assert await registry.present_workers() == []

    @pytest.mark.parametrize("value", RESULTS.values(), ids=RESULTS.keys())
    async def test_a_job_that_could_not_be_read_back_is_not_taken_over(self, queue: Queue, value: Any) -> None:
        taker = offered(queue, TakesOver)
        done = _job("done", state=State.COMPLETED, epoch=1, attempts=1, settled_at=1.0, result=value)
        with pytest.raises(UsageError, match="result"):
            await taker.take_over([Carried(_job("a")), Carried(done)])
        with pytest.raises(UsageError, match="payload"):
            await taker.take_over([Carried(_job("a")), Carried(_job("b", payload={"n": value, "half": HALF}))])
        assert await listed(queue) == []

    async def test_failures_that_could_not_be_read_back_are_not_taken_over(self, queue: Queue) -> None:
        taker = offered(queue, TakesOver)
        unfit = Failure("processing", HALF)
        past = Attempt(epoch=1, worker="wanda", ended_at=1.0, failure=unfit)
        for item in (
            Carried(_job("b", state=State.FAILED, epoch=1, attempts=1, settled_at=1.0, failure=unfit)),
            Carried(_job("b", epoch=1, attempts=1, failure=failure()), (past,)),
        ):
            with pytest.raises(UsageError, match="surrogate"):
                await taker.take_over([Carried(_job("a")), item])
        assert await listed(queue) == []

    @pytest.mark.parametrize("after", NO_IDS)
    async def test_a_page_after_an_invalid_id_is_refused(self, queue: Queue, after: str) -> None:
        await queue.submit(jobs("a", "b"))
        with pytest.raises(UsageError, match="id of a job"):
            await queue.jobs(ALL, after=after)

    async def test_a_page_of_a_negative_size_is_refused_and_one_of_none_is_empty(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        with pytest.raises(UsageError, match="size of a page"):
            await queue.jobs(ALL, limit=-1)
        assert await queue.jobs(ALL, limit=0) == []
        assert len(await queue.jobs(ALL, limit=BIGGEST)) == 2

    @pytest.mark.parametrize("job_id", ["", *NO_IDS])
    async def test_a_job_that_never_was_has_no_history_and_is_not_selected(self, queue: Queue, job_id: str) -> None:
        await queue.submit(jobs("a"))
        assert await queue.history(job_id) == []
        named = Selection(ids=frozenset({job_id}))
        assert await queue.jobs(named) == []
        assert await queue.cancel(named) == 0

    async def test_statistics_of_a_run_that_cannot_be_are_refused(self, queue: Queue) -> None:
        with pytest.raises(UsageError, match="run"):
            await queue.stats(HALF)

    @pytest.mark.parametrize("lease", [timedelta(0), timedelta(seconds=-1), timedelta.max], ids=str)
    async def test_a_renewal_with_an_impossible_length_is_refused(self, queue: Queue, lease: timedelta) -> None:
        worker = WorkerId.new("anna")
        with pytest.raises(UsageError, match="lease"):
            await queue.renew(worker, lease)
        if queue.traits.tracks_presence:
            with pytest.raises(UsageError, match="lease"):
                await offered(queue, WorkerRegistry).register(worker, lease, WorkerInfo())
            assert await offered(queue, WorkerRegistry).present_workers() == []

    @pytest.mark.parametrize("not_before", [0.0, LATEST])
    async def test_a_job_may_be_due_at_either_end_of_time(self, queue: Queue, not_before: float) -> None:
        await queue.submit([job("a", not_before=not_before), *(job(f"{n}", not_before=not_before) for n in range(600))])
        assert len(await queue.jobs(ALL)) == 601
        assert bool(await claim(queue, limit=1)) == (not_before == 0.0)
        assert (await find(queue, "599")).not_before in {not_before, None}
        assert await queue.cancel(ALL) == 601

    async def test_the_biggest_numbers_live_a_whole_life(self, queue: Queue) -> None:
        await queue.submit([job("a", priority=-BIGGEST, max_attempts=BIGGEST), job("b", priority=BIGGEST)])
        first = await claim_one(queue, WorkerId.new("anna"), lease=LONGEST)
        assert await settle(queue, first, Failed(failure(), retry_in=LONGEST, max_attempts=BIGGEST))
        second = await claim_one(queue, WorkerId.new("anna"), lease=LONGEST)
        assert await settle(queue, second, Snoozed(LONGEST))
        later = [found.not_before or 0.0 for found in await queue.jobs(ALL)]
        assert all(instant > LONGEST.total_seconds() for instant in later)
        assert await claim(queue) == []
        assert await queue.jobs(Selection(older_than=LONGEST)) == []
        assert await queue.cancel(ALL) == 2

    async def test_values_may_be_nested_as_deep_as_is_allowed(self, queue: Queue) -> None:
        payload = {"in": nested(DEEPEST - 1)}
        await queue.submit([job("a", payload=payload)])
        lease = await claim_one(queue)
        assert lease.job.payload == payload
        assert await settle(queue, lease, Completed(nested(DEEPEST)))
        assert (await find(queue, "a")).result == nested(DEEPEST)

    @pytest.mark.parametrize("instant", [0.0, LATEST])
    async def test_the_biggest_numbers_can_be_taken_over_and_live_on(self, queue: Queue, instant: float) -> None:
        taker = offered(queue, TakesOver)
        edge: dict[str, Any] = {
            "epoch": MOST,
            "attempts": MOST,
            "max_attempts": BIGGEST,
            "depth": MOST - 1,
            "submitted_at": instant,
        }
        past = Attempt(epoch=MOST, worker="wanda", ended_at=instant, failure=failure())
        pending = Carried(_job("a", **edge, failure=failure()), (past,))
        done = [
            Carried(_job(state.value, **edge, state=state, settled_at=instant, failure=why))
            for state, why in ((State.COMPLETED, None), (State.FAILED, failure()), (State.CANCELLED, None))
        ]
        assert await taker.take_over([pending, *done]) == Submitted(new=4, duplicates=0)
        assert [(each.epoch, each.submitted_at) for each in await queue.jobs(ALL)] == [(MOST, instant)] * 4
        lease = await claim_one(queue)
        assert lease.epoch == MOST + 1
        assert await settle(queue, lease, Failed(failure(), max_attempts=BIGGEST))
        assert await settle(queue, await claim_one(queue), Completed(None, (job("b"),)))
        assert (await find(queue, "b")).depth == MOST
        assert await queue.retry(ALL) == 2
        assert await queue.cancel(ALL) == 3
        assert await queue.prune(ALL) == 5


def _job(key: str, **fields: Any) -> Job:
    theirs: dict[str, Any] = {"id": "theirs", "run": RUN, "kind": KIND, "payload": {}, "submitted_at": 1.0}
    return Job(**theirs | {"key": key} | fields)
