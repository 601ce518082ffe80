"""Leases: who holds them, and what a worker asks for."""

from __future__ import annotations

from longshore.job import Job
from longshore.lease import Held, Lease, Want, WorkerId


def test_workers_with_one_label_are_still_two_workers() -> None:
    one, another = WorkerId.new("anna"), WorkerId.new("anna")
    assert (str(one), str(another)) == ("anna", "anna")
    assert one != another
    assert one.incarnation != another.incarnation


def test_a_worker_without_a_label_gets_one_of_its_own() -> None:
    labels = {WorkerId.new().label for _ in range(50)}
    assert len(labels) == 50


def test_a_lease_is_named_by_its_job_and_its_claim() -> None:
    lease = Lease(Job(id="7", run="r", kind="k", key="a", payload={}, epoch=3), WorkerId.new(), 0.0)
    assert lease.epoch == 3
    assert lease.held == Held("7", 3)


def test_an_absent_filter_lets_everything_through_and_an_empty_one_nothing() -> None:
    worker = WorkerId.new()
    assert Want(worker=worker).matches("any", "thing", "")
    assert not Want(worker=worker, kinds=frozenset()).matches("any", "thing", "")
    assert Want(worker=worker, run="").matches("", "thing", "")
    assert not Want(worker=worker, run="").matches("any", "thing", "")
    narrow = Want(worker=worker, run="r", kinds=frozenset({"k"}), partitions=frozenset({"p"}))
    assert narrow.matches("r", "k", "p")
    assert not any((narrow.matches("x", "k", "p"), narrow.matches("r", "x", "p"), narrow.matches("r", "k", "x")))
