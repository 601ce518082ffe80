"""The tests, one file per subject."""

from __future__ import annotations

from longshore.conformance.suite.attempts import AttemptTests
from longshore.conformance.suite.claiming import ClaimingTests
from longshore.conformance.suite.comparison import ComparisonTests
from longshore.conformance.suite.contention import ContentionTests
from longshore.conformance.suite.fencing import FencingTests
from longshore.conformance.suite.hosts import HostTests
from longshore.conformance.suite.inspecting import InspectingTests
from longshore.conformance.suite.killing import KillingTests
from longshore.conformance.suite.leases import LeaseTests
from longshore.conformance.suite.operating import OperatingTests
from longshore.conformance.suite.presence import RollTests
from longshore.conformance.suite.refusing import RefusingTests
from longshore.conformance.suite.selecting import SelectingTests
from longshore.conformance.suite.settling import SettlingTests
from longshore.conformance.suite.shared_state import NotingTests
from longshore.conformance.suite.submitting import PayloadTests, SubmittingTests
from longshore.conformance.suite.transferring import TransferringTests
from longshore.conformance.suite.values import ValueTests
from longshore.conformance.suite.waiting import WaitingTests
from longshore.queue import Queue


class ProcessTests(ContentionTests, KillingTests):
    """The guarantees for several processes that share the queue, also if they are killed."""


class ConformanceTests(
    SubmittingTests,
    ClaimingTests,
    HostTests,
    LeaseTests,
    SettlingTests,
    FencingTests,
    AttemptTests,
    OperatingTests,
    SelectingTests,
    InspectingTests,
    WaitingTests,
    ValueTests,
    RefusingTests,
    TransferringTests,
    RollTests,
    NotingTests,
    PayloadTests,
    ComparisonTests,
):
    """The guarantees of every medium. A subclass defines the fixture `new_harness`."""

    async def test_a_medium_that_spans_processes_is_tested_with_processes(self, queue: Queue) -> None:
        assert queue.traits.spans_processes == isinstance(self, ProcessTests), (
            "a medium whose traits say spans_processes inherits ProcessTests as well, and no other does"
        )

    async def test_a_medium_that_spans_machines_spans_processes(self, queue: Queue) -> None:
        assert queue.traits.spans_processes or not queue.traits.spans_machines

    async def test_a_medium_has_the_methods_its_traits_promise_and_no_others(self, queue: Queue) -> None:
        methods = {
            "takes_over": ("take_over",),
            "tracks_presence": ("register", "deregister", "present_workers"),
            "shares_state": ("read_entries", "swap_entries"),
            "finds_payloads": ("payloads",),
        }
        for trait, names in methods.items():
            has = {name: hasattr(queue, name) for name in names}
            assert has == dict.fromkeys(names, getattr(queue.traits, trait)), f"its traits say about {trait}"
