"""Presence: registered workers that are alive are listed with their last description; all others are not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

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
    settle,
)
from longshore.conformance.suite.submitting import CANNOT_BE_STORED
from longshore.conformance.suite.values import ODD
from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.lease import WorkerId
from longshore.outcome import Completed
from longshore.queue import Queue, Reaped, Selection

PART = LEASE.total_seconds() * 0.6
"""Seconds that are less than a lease; twice as many are more than one."""
ABOUT: list[dict[str, Any]] = [
    {},
    {"state": "working", "": None},
    {"host": "köln-7", "held": 3, "rate": 0.5, "of": {"kinds": ["page", "☕"], "draining": False}},
    {"text": "Ω\n" * 1500},
]


async def names(queue: WorkerRegistry) -> list[str]:
    """Return the labels of the workers that are present."""
    return [here.worker.label for here in await queue.present()]


async def fall_silent(harness: Harness, queue: WorkerRegistry) -> None:
    """Let more than a lease pass, after a first look, which some media need to measure the silence."""
    assert await queue.reap() == Reaped()
    await queue.present()
    await harness.advance(LEASE.total_seconds() * 1.5)


class RollTests(Scene):
    @pytest_asyncio.fixture
    async def roll(self, queue: Queue) -> WorkerRegistry:
        """The queue under test. The tests are skipped for a medium without a worker registry."""
        if not queue.traits.keeps_roll:
            pytest.skip("its traits say that it keeps no roll")
        return cast("WorkerRegistry", queue)

    async def test_nobody_is_present_in_a_new_queue(self, roll: WorkerRegistry) -> None:
        assert await roll.present() == []

    @pytest.mark.parametrize("about", ABOUT, ids=["nothing", "little", "nested", "much"])
    async def test_who_signed_in_is_present_with_its_words(
        self, roll: WorkerRegistry, about: Mapping[str, Any]
    ) -> None:
        worker = WorkerId.new("anna")
        assert await roll.sign_in(worker, LEASE, about) == []
        assert await roll.present() == [PresentWorker(worker, about)]

    async def test_what_a_worker_says_replaces_what_it_said_before(self, roll: WorkerRegistry) -> None:
        worker = WorkerId.new("anna")
        words: dict[str, Any] = {"state": "working", "job": 7}
        for about in (words, {"state": "idle"}, {}, words):
            await roll.sign_in(worker, LEASE, about)
            assert await roll.present() == [PresentWorker(worker, about)]

    async def test_what_becomes_of_the_words_afterwards_stays_with_the_worker(self, roll: WorkerRegistry) -> None:
        about: dict[str, Any] = {"held": []}
        await roll.sign_in(WorkerId.new("anna"), LEASE, about)
        about["held"].append("more")
        assert [here.about for here in await roll.present()] == [{"held": []}]

    async def test_words_that_cannot_be_stored_sign_nobody_in(self, roll: WorkerRegistry) -> None:
        with pytest.raises(CANNOT_BE_STORED):
            await roll.sign_in(WorkerId.new("anna"), LEASE, {"n": object()})
        assert await roll.present() == []

    async def test_those_present_are_told_by_label(self, roll: WorkerRegistry) -> None:
        for label in ("carl", "anna", "Dora", "bert"):
            await roll.sign_in(WorkerId.new(label), LEASE, {"i am": label})
        assert [(here.worker.label, here.about["i am"]) for here in await roll.present()] == [
            (label, label) for label in ("Dora", "anna", "bert", "carl")
        ]

    async def test_any_text_may_be_a_label(self, roll: WorkerRegistry) -> None:
        workers = {text: WorkerId.new(text) for text in ODD.values()}
        for text, worker in workers.items():
            await roll.sign_in(worker, LEASE, {text: text})
        assert await roll.present() == [PresentWorker(workers[text], {text: text}) for text in sorted(workers)]

    async def test_two_workers_with_one_label_are_two(self, roll: WorkerRegistry) -> None:
        twins = [WorkerId.new("twin"), WorkerId.new("twin")]
        for number, twin in enumerate(twins):
            await roll.sign_in(twin, LEASE, {"n": number})
        present = await roll.present()
        assert {(here.worker, here.about["n"]) for here in present} == {(twin, n) for n, twin in enumerate(twins)}
        await roll.sign_out(twins[0])
        assert await roll.present() == [PresentWorker(twins[1], {"n": 1})]

    async def test_one_of_two_with_one_label_falls_silent_alone(self, roll: WorkerRegistry, harness: Harness) -> None:
        dead, alive = WorkerId.new("twin"), WorkerId.new("twin")
        await roll.sign_in(dead, LEASE, {"n": 0})
        await roll.sign_in(alive, LEASE, {"n": 1})
        await roll.present()
        await harness.advance(PART)
        await roll.sign_in(alive, LEASE, {"n": 2})
        await harness.advance(PART)
        assert await roll.present() == [PresentWorker(alive, {"n": 2})]

    async def test_signing_in_tells_what_the_worker_holds(self, roll: WorkerRegistry, harness: Harness) -> None:
        await roll.submit(jobs("a", "b"))
        worker = WorkerId.new("anna")
        assert await roll.sign_in(worker, LEASE, {}) == []
        first, second = await claim(roll, worker)
        assert set(await roll.sign_in(worker, LEASE, {})) == held(first, second)
        await settle(roll, first, Completed())
        assert set(await roll.sign_in(worker, LEASE, {})) == held(second)
        await expire(harness, roll)
        assert await roll.sign_in(worker, LEASE, {}) == []

    async def test_signing_in_extends_all_leases(self, roll: WorkerRegistry, harness: Harness) -> None:
        await roll.submit(jobs("a", "b"))
        worker = WorkerId.new("anna")
        leases = await claim(roll, worker)
        for _ in range(3):
            assert await roll.reap() == Reaped()
            await harness.advance(PART)
            assert set(await roll.sign_in(worker, LEASE, {})) == held(*leases)
        await harness.advance(PART)
        assert await roll.reap() == Reaped()

    async def test_who_never_signed_in_is_not_on_the_roll(self, roll: WorkerRegistry) -> None:
        await roll.submit(jobs("a"))
        await claim_one(roll, WorkerId.new("claims"))
        await roll.renew(WorkerId.new("renews"), LEASE)
        assert await roll.present() == []

    async def test_who_claimed_first_may_sign_in_later(self, roll: WorkerRegistry) -> None:
        await roll.submit(jobs("a"))
        worker = WorkerId.new("anna")
        lease = await claim_one(roll, worker)
        assert await roll.sign_in(worker, LEASE, {"n": 1}) == [lease.held]
        assert await roll.present() == [PresentWorker(worker, {"n": 1})]

    async def test_who_renews_stays_with_the_words_it_said(self, roll: WorkerRegistry, harness: Harness) -> None:
        worker = WorkerId.new("anna")
        await roll.sign_in(worker, LEASE, {"state": "working"})
        for _ in range(3):
            await roll.present()
            await harness.advance(PART)
            await roll.renew(worker, LEASE)
            assert await roll.reap() == Reaped()
        assert await roll.present() == [PresentWorker(worker, {"state": "working"})]

    async def test_who_claims_stays_with_the_words_it_said(self, roll: WorkerRegistry, harness: Harness) -> None:
        await roll.submit(jobs("a"))
        worker = WorkerId.new("anna")
        await roll.sign_in(worker, LEASE, {"state": "working"})
        # The first claim gets a job, the others get none.
        for _ in range(3):
            await roll.present()
            await harness.advance(PART)
            await claim(roll, worker)
            assert await roll.reap() == Reaped()
        assert await roll.present() == [PresentWorker(worker, {"state": "working"})]

    async def test_who_is_silent_for_a_lease_is_not_present(self, roll: WorkerRegistry, harness: Harness) -> None:
        await roll.sign_in(WorkerId.new("anna"), LEASE, {})
        await fall_silent(harness, roll)
        assert await roll.present() == []
        assert await roll.present() == []

    async def test_another_opening_sees_the_silence_too(
        self, roll: WorkerRegistry, other: Queue, harness: Harness
    ) -> None:
        watcher = cast("WorkerRegistry", other)
        await roll.sign_in(WorkerId.new("anna"), LEASE, {})
        await fall_silent(harness, watcher)
        assert await watcher.present() == []

    async def test_who_speaks_again_before_anyone_reaped_is_present_again(
        self, roll: WorkerRegistry, harness: Harness
    ) -> None:
        worker = WorkerId.new("anna")
        await roll.sign_in(worker, LEASE, {"n": 1})
        await fall_silent(harness, roll)
        assert await roll.present() == []
        await roll.renew(worker, LEASE)
        assert await roll.present() == [PresentWorker(worker, {"n": 1})]

    async def test_a_reap_takes_the_silent_off_the_roll(self, roll: WorkerRegistry, harness: Harness) -> None:
        await roll.submit(jobs("a"))
        silent, alive = WorkerId.new("silent"), WorkerId.new("alive")
        await roll.sign_in(silent, LEASE, {"n": 1})
        await claim_one(roll, silent)
        await fall_silent(harness, roll)
        await roll.sign_in(alive, LEASE, {})
        assert await roll.reap() == Reaped(returned=1)
        assert await names(roll) == ["alive"]
        await roll.renew(silent, LEASE)
        assert await names(roll) == ["alive"]
        await roll.sign_in(silent, LEASE, {"n": 2})
        assert await roll.present() == [PresentWorker(alive, {}), PresentWorker(silent, {"n": 2})]

    async def test_who_comes_after_one_that_was_reaped_does_not_take_its_place(
        self, roll: WorkerRegistry, harness: Harness
    ) -> None:
        await roll.sign_in(WorkerId.new("gone"), LEASE, {"n": 1})
        await fall_silent(harness, roll)
        assert await roll.reap() == Reaped()
        await roll.renew(WorkerId.new("next"), LEASE)
        assert await roll.present() == []

    async def test_each_is_silent_by_the_length_of_its_own_lease(self, roll: WorkerRegistry, harness: Harness) -> None:
        await roll.sign_in(WorkerId.new("brief"), timedelta(seconds=10), {})
        await roll.sign_in(WorkerId.new("long"), timedelta(seconds=100), {})
        assert await names(roll) == ["brief", "long"]
        await harness.advance(20)
        assert await names(roll) == ["long"]
        await harness.advance(100)
        assert await names(roll) == []

    async def test_who_signs_out_is_gone_at_once_and_keeps_its_leases(
        self, roll: WorkerRegistry, harness: Harness
    ) -> None:
        await roll.submit(jobs("a", "b"))
        worker = WorkerId.new("anna")
        await roll.sign_in(worker, LEASE, {"n": 1})
        first, second = await claim(roll, worker)
        await roll.sign_out(worker)
        assert await roll.present() == []
        assert await settle(roll, first, Completed())
        assert await roll.renew(worker, LEASE) == [second.held]
        assert await roll.present() == []
        assert await expire(harness, roll) == Reaped(returned=1)

    async def test_who_signed_out_may_sign_in_again(self, roll: WorkerRegistry) -> None:
        worker = WorkerId.new("anna")
        await roll.sign_in(worker, LEASE, {"n": 1})
        await roll.sign_out(worker)
        await roll.sign_in(worker, LEASE, {"n": 2})
        assert await roll.present() == [PresentWorker(worker, {"n": 2})]

    async def test_signing_out_twice_or_unknown_is_harmless(self, roll: WorkerRegistry) -> None:
        await roll.submit(jobs("a"))
        anna, bert = WorkerId.new("anna"), WorkerId.new("bert")
        await roll.sign_in(anna, LEASE, {})
        lease = await claim_one(roll, bert)
        for _ in range(2):
            await roll.sign_out(bert)
            await roll.sign_out(WorkerId.new("stranger"))
            await roll.sign_out(WorkerId.new("anna"))
        assert await names(roll) == ["anna"]
        assert await roll.renew(bert, LEASE) == [lease.held]

    async def test_the_roll_is_the_same_through_every_opening(self, roll: WorkerRegistry, other: Queue) -> None:
        through = cast("WorkerRegistry", other)
        anna, bert = WorkerId.new("anna"), WorkerId.new("bert")
        await roll.sign_in(anna, LEASE, {"n": 1})
        await through.sign_in(bert, LEASE, {"n": 2})
        both = [PresentWorker(anna, {"n": 1}), PresentWorker(bert, {"n": 2})]
        assert (await roll.present(), await through.present()) == (both, both)
        await through.sign_out(anna)
        assert (await roll.present(), await through.present()) == (both[1:], both[1:])

    async def test_the_roll_outlives_the_opening_it_was_signed_through(
        self, roll: WorkerRegistry, harness: Harness
    ) -> None:
        brief = cast("WorkerRegistry", await harness.open())
        worker = WorkerId.new("anna")
        await brief.sign_in(worker, LEASE, {"n": 1})
        await brief.close()
        assert await roll.present() == [PresentWorker(worker, {"n": 1})]

    async def test_the_roll_and_the_jobs_leave_each_other_alone(self, roll: WorkerRegistry) -> None:
        await roll.submit(jobs("a"))
        before = await roll.stats()
        await roll.sign_in(WorkerId.new("anna"), LEASE, {"n": 1})
        assert await roll.stats() == before
        await roll.cancel(Selection())
        await roll.prune(Selection())
        assert await names(roll) == ["anna"]
