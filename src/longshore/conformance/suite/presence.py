"""Presence: registered workers that are alive are listed with their last description; all others are not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    LEASE,
    Scene,
    claim,
    claim_one,
    expire,
    held,
    jobs,
    offered,
    settle,
)
from longshore.conformance.suite.submitting import CANNOT_BE_STORED
from longshore.conformance.suite.values import ODD
from longshore.extensions.presence import FleetInfo, MembershipInfo, PresentWorker, WorkerInfo, WorkerRegistry
from longshore.extensions.submissions import being_submitted
from longshore.lease import WorkerId
from longshore.outcome import Completed
from longshore.queue import Queue, Reaped, Selection

PART = LEASE.total_seconds() * 0.6
"""Less than a lease; twice this is more than one."""
INFO = {
    "nothing": WorkerInfo(),
    "little": WorkerInfo(machine="", run=None),
    "everything": WorkerInfo(
        machine="köln-7",
        slots=4,
        busy=0,
        kinds=("page", "☕"),
        fleet=FleetInfo(name="f", number=3),
        membership=MembershipInfo(run=None, number=None, partitions=("CA", "")),
        partitions=(),
        run="r",
    ),
    "submission": WorkerInfo(submitting="r"),
    "much": WorkerInfo(machine="Ω\n" * 1500),
}


async def names(registry: WorkerRegistry) -> list[str]:
    """Return the labels of the workers that are present."""
    return [here.worker.label for here in await registry.present_workers()]


async def fall_silent(harness: Harness, queue: Queue) -> None:
    """Let more than a lease go by, after the look without which an observer cannot know how long."""
    assert await queue.reap() == Reaped()
    await offered(queue, WorkerRegistry).present_workers()
    await harness.advance(LEASE.total_seconds() * 1.5)


class RollTests(Scene):
    async def test_a_submission_under_way_is_seen_through_every_opening_until_it_ends_or_its_process_dies(
        self, harness: Harness, registry: WorkerRegistry, queue: Queue, other: Queue
    ) -> None:
        submitter, dead = WorkerId.new("submission"), WorkerId.new("submission")
        await registry.register(submitter, LEASE, WorkerInfo(submitting="r"))
        await registry.register(dead, LEASE, WorkerInfo(submitting="s"))
        for opened in (queue, other):
            assert [await being_submitted(opened, run) for run in ("r", "s", "t", None)] == [True, True, False, True]
        await harness.advance(PART)
        await registry.register(submitter, LEASE, WorkerInfo(submitting="r"))
        assert await being_submitted(other, "r")
        await harness.advance(PART)
        for opened in (queue, other):
            assert [await being_submitted(opened, run) for run in ("r", "s")] == [True, False]
        await registry.deregister(submitter)
        for opened in (queue, other):
            assert not await being_submitted(opened, None)

    @pytest_asyncio.fixture
    async def registry(self, queue: Queue) -> WorkerRegistry:
        """The presence of the queue under test. A medium without the trait is not asked for it."""
        return offered(queue, WorkerRegistry)

    async def test_no_worker_is_present_in_a_new_queue(self, registry: WorkerRegistry) -> None:
        assert await registry.present_workers() == []

    @pytest.mark.parametrize("info", INFO.values(), ids=INFO.keys())
    async def test_a_registered_worker_is_present_with_its_info(
        self, registry: WorkerRegistry, info: WorkerInfo
    ) -> None:
        worker = WorkerId.new("anna")
        assert await registry.register(worker, LEASE, info) == []
        assert await registry.present_workers() == [PresentWorker(worker, info)]

    async def test_new_info_of_a_worker_replaces_the_old(self, registry: WorkerRegistry) -> None:
        worker = WorkerId.new("anna")
        working = WorkerInfo(machine="m", busy=7)
        for info in (working, WorkerInfo(machine="idle"), WorkerInfo(), working):
            await registry.register(worker, LEASE, info)
            assert await registry.present_workers() == [PresentWorker(worker, info)]

    async def test_info_that_cannot_be_stored_registers_no_worker(self, registry: WorkerRegistry) -> None:
        unfit: Any = object()
        with pytest.raises(CANNOT_BE_STORED):
            await registry.register(WorkerId.new("anna"), LEASE, WorkerInfo(machine=unfit))
        assert await registry.present_workers() == []

    async def test_those_present_are_told_by_label(self, registry: WorkerRegistry) -> None:
        for label in ("carl", "anna", "Dora", "bert"):
            await registry.register(WorkerId.new(label), LEASE, WorkerInfo(machine=label))
        assert [(here.worker.label, here.info.machine) for here in await registry.present_workers()] == [
            (label, label) for label in ("Dora", "anna", "bert", "carl")
        ]

    async def test_any_text_may_be_a_label(self, registry: WorkerRegistry) -> None:
        workers = {text: WorkerId.new(text) for text in ODD.values()}
        for text, worker in workers.items():
            await registry.register(worker, LEASE, WorkerInfo(machine=text))
        assert await registry.present_workers() == [
            PresentWorker(workers[text], WorkerInfo(machine=text)) for text in sorted(workers)
        ]

    async def test_two_workers_with_one_label_are_two(self, registry: WorkerRegistry) -> None:
        twins = [WorkerId.new("twin"), WorkerId.new("twin")]
        for number, twin in enumerate(twins):
            await registry.register(twin, LEASE, WorkerInfo(slots=number))
        present = await registry.present_workers()
        assert {(here.worker, here.info.slots) for here in present} == {(twin, n) for n, twin in enumerate(twins)}
        await registry.deregister(twins[0])
        assert await registry.present_workers() == [PresentWorker(twins[1], WorkerInfo(slots=1))]

    async def test_one_of_two_with_one_label_falls_silent_alone(
        self, registry: WorkerRegistry, harness: Harness
    ) -> None:
        dead, alive = WorkerId.new("twin"), WorkerId.new("twin")
        await registry.register(dead, LEASE, WorkerInfo(slots=0))
        await registry.register(alive, LEASE, WorkerInfo(slots=1))
        await registry.present_workers()
        await harness.advance(PART)
        await registry.register(alive, LEASE, WorkerInfo(slots=2))
        await harness.advance(PART)
        assert await registry.present_workers() == [PresentWorker(alive, WorkerInfo(slots=2))]

    async def test_registering_returns_the_held_leases(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await queue.submit(jobs("a", "b"))
        worker = WorkerId.new("anna")
        assert await registry.register(worker, LEASE, WorkerInfo()) == []
        first, second = await claim(queue, worker)
        assert set(await registry.register(worker, LEASE, WorkerInfo())) == held(first, second)
        await settle(queue, first, Completed())
        assert set(await registry.register(worker, LEASE, WorkerInfo())) == held(second)
        await expire(harness, queue)
        assert await registry.register(worker, LEASE, WorkerInfo()) == []

    async def test_signing_in_extends_all_leases(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await queue.submit(jobs("a", "b"))
        worker = WorkerId.new("anna")
        leases = await claim(queue, worker)
        for _ in range(3):
            assert await queue.reap() == Reaped()
            await harness.advance(PART)
            assert set(await registry.register(worker, LEASE, WorkerInfo())) == held(*leases)
        await harness.advance(PART)
        assert await queue.reap() == Reaped()

    async def test_a_worker_that_never_registered_is_not_present(self, queue: Queue, registry: WorkerRegistry) -> None:
        await queue.submit(jobs("a"))
        await claim_one(queue, WorkerId.new("claims"))
        await queue.renew(WorkerId.new("renews"), LEASE)
        assert await registry.present_workers() == []

    async def test_a_worker_may_claim_before_it_registers(self, queue: Queue, registry: WorkerRegistry) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new("anna")
        lease = await claim_one(queue, worker)
        assert await registry.register(worker, LEASE, WorkerInfo(slots=1)) == [lease.held]
        assert await registry.present_workers() == [PresentWorker(worker, WorkerInfo(slots=1))]

    async def test_a_worker_that_renews_stays_present_with_its_info(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        worker = WorkerId.new("anna")
        await registry.register(worker, LEASE, WorkerInfo(machine="working"))
        for _ in range(3):
            await registry.present_workers()
            await harness.advance(PART)
            await queue.renew(worker, LEASE)
            assert await queue.reap() == Reaped()
        assert await registry.present_workers() == [PresentWorker(worker, WorkerInfo(machine="working"))]

    async def test_a_worker_that_claims_stays_present_with_its_info(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new("anna")
        await registry.register(worker, LEASE, WorkerInfo(machine="working"))
        # The first claim gets a job, the others get none.
        for _ in range(3):
            await registry.present_workers()
            await harness.advance(PART)
            await claim(queue, worker)
            assert await queue.reap() == Reaped()
        assert await registry.present_workers() == [PresentWorker(worker, WorkerInfo(machine="working"))]

    async def test_a_worker_silent_for_a_lease_is_not_present(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await registry.register(WorkerId.new("anna"), LEASE, WorkerInfo())
        await fall_silent(harness, queue)
        assert await registry.present_workers() == []
        assert await registry.present_workers() == []

    async def test_another_opening_sees_the_silence_too(
        self, registry: WorkerRegistry, other: Queue, harness: Harness
    ) -> None:
        watcher = offered(other, WorkerRegistry)
        await registry.register(WorkerId.new("anna"), LEASE, WorkerInfo())
        await fall_silent(harness, other)
        assert await watcher.present_workers() == []

    async def test_a_worker_heard_again_before_a_reap_is_present_again(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        worker = WorkerId.new("anna")
        await registry.register(worker, LEASE, WorkerInfo(slots=1))
        await fall_silent(harness, queue)
        assert await registry.present_workers() == []
        await queue.renew(worker, LEASE)
        assert await registry.present_workers() == [PresentWorker(worker, WorkerInfo(slots=1))]

    async def test_a_reap_removes_silent_workers_from_the_registry(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await queue.submit(jobs("a"))
        silent, alive = WorkerId.new("silent"), WorkerId.new("alive")
        await registry.register(silent, LEASE, WorkerInfo(slots=1))
        await claim_one(queue, silent)
        await fall_silent(harness, queue)
        await registry.register(alive, LEASE, WorkerInfo())
        assert await queue.reap() == Reaped(returned=1)
        assert await names(registry) == ["alive"]
        await queue.renew(silent, LEASE)
        assert await names(registry) == ["alive"]
        await registry.register(silent, LEASE, WorkerInfo(slots=2))
        assert await registry.present_workers() == [
            PresentWorker(alive, WorkerInfo()),
            PresentWorker(silent, WorkerInfo(slots=2)),
        ]

    async def test_a_new_worker_does_not_replace_one_that_was_reaped(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await registry.register(WorkerId.new("gone"), LEASE, WorkerInfo(slots=1))
        await fall_silent(harness, queue)
        assert await queue.reap() == Reaped()
        await queue.renew(WorkerId.new("next"), LEASE)
        assert await registry.present_workers() == []

    async def test_each_is_silent_by_the_length_of_its_own_lease(
        self, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await registry.register(WorkerId.new("brief"), timedelta(seconds=10), WorkerInfo())
        await registry.register(WorkerId.new("long"), timedelta(seconds=100), WorkerInfo())
        assert await names(registry) == ["brief", "long"]
        await harness.advance(20)
        assert await names(registry) == ["long"]
        await harness.advance(100)
        assert await names(registry) == []

    async def test_a_deregistered_worker_is_gone_at_once_and_keeps_its_leases(
        self, queue: Queue, registry: WorkerRegistry, harness: Harness
    ) -> None:
        await queue.submit(jobs("a", "b"))
        worker = WorkerId.new("anna")
        await registry.register(worker, LEASE, WorkerInfo(slots=1))
        first, second = await claim(queue, worker)
        await registry.deregister(worker)
        assert await registry.present_workers() == []
        assert await settle(queue, first, Completed())
        assert await queue.renew(worker, LEASE) == [second.held]
        assert await registry.present_workers() == []
        assert await expire(harness, queue) == Reaped(returned=1)

    async def test_a_deregistered_worker_may_register_again(self, registry: WorkerRegistry) -> None:
        worker = WorkerId.new("anna")
        await registry.register(worker, LEASE, WorkerInfo(slots=1))
        await registry.deregister(worker)
        await registry.register(worker, LEASE, WorkerInfo(slots=2))
        assert await registry.present_workers() == [PresentWorker(worker, WorkerInfo(slots=2))]

    async def test_signing_out_twice_or_unknown_is_harmless(self, queue: Queue, registry: WorkerRegistry) -> None:
        await queue.submit(jobs("a"))
        anna, bert = WorkerId.new("anna"), WorkerId.new("bert")
        await registry.register(anna, LEASE, WorkerInfo())
        lease = await claim_one(queue, bert)
        for _ in range(2):
            await registry.deregister(bert)
            await registry.deregister(WorkerId.new("stranger"))
            await registry.deregister(WorkerId.new("anna"))
        assert await names(registry) == ["anna"]
        assert await queue.renew(bert, LEASE) == [lease.held]

    async def test_the_registry_is_the_same_through_every_opening(self, registry: WorkerRegistry, other: Queue) -> None:
        through = offered(other, WorkerRegistry)
        anna, bert = WorkerId.new("anna"), WorkerId.new("bert")
        await registry.register(anna, LEASE, WorkerInfo(slots=1))
        await through.register(bert, LEASE, WorkerInfo(slots=2))
        both = [PresentWorker(anna, WorkerInfo(slots=1)), PresentWorker(bert, WorkerInfo(slots=2))]
        assert (await registry.present_workers(), await through.present_workers()) == (both, both)
        await through.deregister(anna)
        assert (await registry.present_workers(), await through.present_workers()) == (both[1:], both[1:])

    async def test_the_registry_outlives_the_opening_that_wrote_it(
        self, registry: WorkerRegistry, harness: Harness
    ) -> None:
        brief = await harness.open()
        worker = WorkerId.new("anna")
        await offered(brief, WorkerRegistry).register(worker, LEASE, WorkerInfo(slots=1))
        await brief.close()
        assert await registry.present_workers() == [PresentWorker(worker, WorkerInfo(slots=1))]

    async def test_the_registry_and_the_jobs_do_not_affect_each_other(
        self, queue: Queue, registry: WorkerRegistry
    ) -> None:
        await queue.submit(jobs("a"))
        before = await queue.stats()
        await registry.register(WorkerId.new("anna"), LEASE, WorkerInfo(slots=1))
        assert await queue.stats() == before
        await queue.cancel(Selection())
        await queue.prune(Selection())
        assert await names(registry) == ["anna"]
