"""The history checker finds each kind of broken promise in a hand-made history, and nothing in a good one (F12)."""

from __future__ import annotations

import sys
from collections import Counter

import msgspec
import pytest

from longshore.conformance.history import ProcessHistory, check
from longshore.conformance.history.events import (
    Answered,
    AnyEvent,
    Called,
    Chosen,
    FaultSwitched,
    HandlerEntered,
    HandlerLeft,
    JobCarried,
    JobSeen,
    JobsMoved,
    LeaseGiven,
    LimitsSet,
    Name,
    PastAttempt,
    ProcessEnded,
    ProcessStarted,
    QueueRewound,
    QueueSeen,
    ReaderSaid,
    RecordGiven,
    RecordSeen,
    RecordsFlushed,
    RunPaused,
    SettlementSent,
    WorkerNamed,
)

Q = "q"
A: Name = ("r", "page", "a")
B: Name = ("r", "page", "b")


class Story:
    """A hand-made history: each line is one event of a process, and each has a moment of its own."""

    def __init__(self) -> None:
        self._events: dict[str, list[AnyEvent]] = {}
        self._moment = self._calls = 0

    def note(self, process: str, event: AnyEvent) -> int:
        self._moment += 1
        events = self._events.setdefault(process, [ProcessStarted(moment=self._moment, process=process, role="test")])
        events.append(msgspec.structs.replace(event, moment=self._moment))
        return self._moment

    def call(self, process: str, called: Called, answered: Answered | None) -> None:
        self._calls += 1
        self.note(process, msgspec.structs.replace(called, call=self._calls))
        if answered is not None:
            self.note(process, msgspec.structs.replace(answered, call=self._calls))

    def submit(self, *names: Name, new: int | None = None, by: str = "submitter") -> None:
        fresh = len(names) if new is None else new
        called = Called(call=0, queue=Q, verb="submit", names=names)
        self.call(by, called, Answered(call=0, new=fresh, duplicates=len(names) - fresh))

    def claim(self, name: Name, epoch: int = 1, *, by: str = "anna", job_id: str | None = None) -> None:
        self.note(by, WorkerNamed(holder=by))
        lease = LeaseGiven(id=job_id or name[2], name=name, epoch=epoch, holder=by)
        self.call(by, Called(call=0, queue=Q, verb="claim", holder=by), Answered(call=0, leases=(lease,)))

    def settle(
        self,
        name: Name,
        epoch: int = 1,
        *,
        by: str = "anna",
        outcome: str = "completed",
        accepted: bool | None = True,
        job_id: str | None = None,
        follow_ons: tuple[Name, ...] = (),
        path: str = "settler",
        last: bool = False,
        keeps_limits: bool = False,
        result: str = "",
    ) -> None:
        sent = SettlementSent(
            id=job_id or name[2],
            name=name,
            epoch=epoch,
            holder=by,
            outcome=outcome,
            follow_ons=follow_ons,
            last=last,
            result=result,
        )
        called = Called(call=0, queue=Q, verb="settle", path=path, settlements=(sent,), keeps_limits=keeps_limits)
        self.call(by, called, None if accepted is None else Answered(call=0, accepted=(accepted,)))

    def change(self, verb: str, name: Name) -> None:
        chosen = Chosen(run=name[0], ids=(name[2],))
        self.call("person", Called(call=0, queue=Q, verb=verb, chosen=chosen), Answered(call=0, changed=1))

    @property
    def histories(self) -> list[ProcessHistory]:
        return [ProcessHistory(process, events) for process, events in self._events.items()]


def job(name: Name, state: str = "completed", epoch: int = 1, **more: object) -> JobSeen:
    given = {"attempts": int(state == "completed"), "id": name[2]} | more
    return msgspec.convert({"name": name, "state": state, "epoch": epoch, **given}, JobSeen)


def seen(*jobs: JobSeen, **more: object) -> QueueSeen:
    states = [each.state for each in jobs]
    counts = {state: states.count(state) for state in set(states)}
    return msgspec.convert({"queue": Q, "jobs": jobs, "counts": counts, **more}, QueueSeen, from_attributes=True)


def broken(story: Story, *observed: QueueSeen) -> list[str]:
    return sorted({each.rule for each in check(story.histories, observed)})


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_good_history_breaks_no_rule(story: Story) -> None:
    story.submit(A, B)
    story.submit(A, new=0)
    story.claim(A)
    story.settle(A, outcome="released")
    story.claim(A, 2, by="bert")
    story.settle(A, 1, accepted=False)
    story.settle(A, 2, by="bert", follow_ons=(("r", "page", "c"),))
    story.claim(B)
    story.note("anna", HandlerLeft(queue=Q, id="b", epoch=1, how="raised"))
    story.settle(B, outcome="failed", last=True)
    failure = PastAttempt(epoch=1, error_type="unknown", worker="anna")
    child = job(("r", "page", "c"), "pending", 0, parent=("page", "a"), depth=1)
    final = seen(job(A, epoch=2), job(B, "failed", attempts=1, history=(failure,)), child, records=())
    assert check(story.histories, [final]) == []


class TestNames:
    def test_a_job_that_is_gone(self, story: Story) -> None:
        story.submit(A, B)
        assert broken(story, seen(job(A, "pending", 0))) == ["C1"]

    def test_a_job_that_was_set_aside_and_reported(self, story: Story) -> None:
        story.submit(A, B)
        assert broken(story, seen(job(A, "pending", 0), rejected=1)) == []

    def test_a_job_that_was_pruned(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.settle(A)
        story.change("prune", A)
        assert broken(story, seen()) == []

    def test_a_submission_without_an_answer_may_be_lost(self, story: Story) -> None:
        story.call("submitter", Called(call=0, queue=Q, verb="submit", names=(A,)), None)
        assert broken(story, seen()) == []

    def test_a_name_that_is_two_jobs(self, story: Story) -> None:
        story.submit(A)
        story.submit(A, new=0)
        story.claim(A, job_id="1")
        story.settle(A, job_id="1")
        assert broken(story, seen(job(A, id="1"), job(A, "pending", 0, id="2"))) == ["C1"]

    def test_a_settled_key_that_is_accepted_again(self, story: Story) -> None:
        story.submit(A)
        story.submit(A, new=1)
        assert broken(story, seen(job(A, "pending", 0))) == ["C1"]

    def test_a_new_job_that_is_called_a_duplicate(self, story: Story) -> None:
        story.submit(A, B, new=1)
        assert broken(story, seen(job(A, "pending", 0), job(B, "pending", 0))) == ["C1"]

    def test_a_job_from_nowhere(self, story: Story) -> None:
        story.submit(A)
        assert broken(story, seen(job(A, "pending", 0), job(B, "pending", 0))) == ["C1"]

    def test_a_move_that_arrived_and_one_that_did_not(self, story: Story) -> None:
        story.submit(A)
        story.note("conductor", JobsMoved(queue=Q, run="r", to="other"))
        carried = (JobCarried(name=A, state="pending"),)
        called = Called(call=0, queue="other", verb="take_over", carried=carried)
        story.call("mover", called, Answered(call=0, new=1))
        there = msgspec.structs.replace(seen(job(A, "pending", 0)), queue="other")
        nowhere = msgspec.structs.replace(seen(), queue="other")
        assert broken(story, seen(), there) == []
        assert broken(story, seen(), nowhere) == ["C1"]


class TestLives:
    def test_an_epoch_that_is_given_twice(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.claim(A, by="bert")
        story.settle(A)
        assert broken(story, seen(job(A))) == ["C2"]

    def test_a_settlement_of_an_old_epoch(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.claim(A, 2, by="bert")
        story.settle(A, 1)
        assert "C2" in broken(story, seen(job(A, epoch=2)))

    def test_a_job_that_is_completed_twice(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.settle(A)
        story.claim(A, 2, by="bert")
        story.settle(A, 2, by="bert")
        assert broken(story, seen(job(A, epoch=2))) == ["C2"]

    def test_a_settlement_by_one_who_holds_nothing(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.settle(A, by="bert")
        assert broken(story, seen(job(A))) == ["C2"]

    def test_a_holder_that_is_refused_for_no_reason(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.settle(A, accepted=False)
        assert "C2" in broken(story, seen(job(A, "claimed", attempts=0)))

    def test_a_holder_that_is_refused_because_the_job_was_cancelled(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.change("cancel", A)
        story.settle(A, accepted=False)
        assert broken(story, seen(job(A, "cancelled"))) == []

    @pytest.mark.parametrize("verb", ["cancel", "release"])
    def test_an_epoch_that_a_person_ended(self, story: Story, verb: str) -> None:
        story.submit(A)
        story.claim(A)
        story.change(verb, A)
        story.change("retry", A)
        story.settle(A, accepted=False)
        story.claim(A, 2, by="bert")
        story.settle(A, 2, by="bert")
        assert broken(story, seen(job(A, epoch=2))) == []

    def test_an_epoch_that_ended_without_a_reason(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.claim(A, 2, by="bert")
        story.settle(A, 2, by="bert")
        assert broken(story, seen(job(A, epoch=2))) == ["C2"]

    def test_a_settlement_without_an_answer_explains_the_state(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.settle(A, accepted=None)
        assert broken(story, seen(job(A))) == []

    def test_a_failed_job_may_run_again_after_a_retry(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.note("anna", HandlerLeft(queue=Q, id="a", epoch=1, how="raised"))
        story.settle(A, outcome="failed", last=True)
        failure = PastAttempt(epoch=1, error_type="unknown", worker="anna")
        again = job(A, epoch=2, attempts=1, history=(failure,))
        story.change("retry", A)
        story.claim(A, 2)
        story.settle(A, 2)
        assert broken(story, seen(again)) == []

    def test_a_medium_that_went_back_in_time(self, story: Story) -> None:
        """Anna's claim was undone, and bert holds the same epoch now."""
        story.submit(A)
        story.claim(A)
        story.note("conductor", QueueRewound(queue=Q, done=False))
        story.note("conductor", QueueRewound(queue=Q, done=True))
        story.claim(A, by="bert")
        story.settle(A)
        assert broken(story, seen(job(A))) == ["C2"]

    @pytest.mark.parametrize(("error", "rules"), [("QueueUnavailableError", []), ("", ["C2"])])
    def test_a_holder_that_was_never_told_that_it_claimed_after_the_medium_went_back(
        self, error: str, rules: list[str], story: Story
    ) -> None:
        """It may have if the answer to its claim was lost, and not if that named other jobs."""
        story.submit(A)
        story.claim(A)
        story.note("conductor", QueueRewound(queue=Q, done=False))
        story.note("conductor", QueueRewound(queue=Q, done=True))
        story.note("bert", WorkerNamed(holder="bert"))
        story.call("bert", Called(call=0, queue=Q, verb="claim", holder="bert"), Answered(call=0, error=error))
        story.settle(A, by="bert", outcome="released", path="orphaned lease")
        story.claim(A, 2, by="carl")
        story.settle(A, 2, by="carl")
        assert broken(story, seen(job(A, epoch=2))) == rules

    def test_a_holder_that_settles_after_the_medium_went_back(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.note("conductor", QueueRewound(queue=Q, done=False))
        story.note("conductor", QueueRewound(queue=Q, done=True))
        story.claim(A, by="bert")
        story.settle(A, accepted=False)
        story.settle(A, by="bert")
        assert broken(story, seen(job(A))) == []


class TestRecords:
    def emitted(self, story: Story, epoch: int = 1, *, by: str = "anna") -> None:
        story.note(by, RecordGiven(queue=Q, id="a", epoch=epoch, data=f'"{epoch}"'))

    def test_records_of_a_refused_attempt(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        self.emitted(story, 1)
        story.settle(A, outcome="released")
        story.claim(A, 2, by="bert")
        self.emitted(story, 2, by="bert")
        story.note("bert", RecordsFlushed(attempts=(("a", 2),)))
        story.settle(A, 2, by="bert")
        right, wrong = (RecordSeen(name=A, epoch=epoch, data=f'"{epoch}"') for epoch in (2, 1))
        assert broken(story, seen(job(A, epoch=2), records=(right,))) == []
        assert broken(story, seen(job(A, epoch=2), records=(wrong,))) == ["C3"]
        assert broken(story, seen(job(A, epoch=2), records=())) == ["C3"]
        assert broken(story, seen(job(A, epoch=2), records=(right, right))) == ["C3"]

    def test_records_of_a_job_that_is_not_completed(self, story: Story) -> None:
        story.submit(A)
        record = RecordSeen(name=A, epoch=1, data="1")
        assert broken(story, seen(job(A, "pending", 0), records=(record,))) == ["C3"]

    def test_an_attempt_that_ran_twice_because_the_medium_was_set_back(self, story: Story) -> None:
        story.submit(A)
        for _ in range(2):
            story.note("anna", HandlerEntered(queue=Q, id="a", epoch=1))
            self.emitted(story)
        story.note("anna", RecordsFlushed(attempts=(("a", 1),)))
        story.claim(A)
        story.settle(A)
        record = RecordSeen(name=A, epoch=1, data='"1"')
        assert broken(story, seen(job(A), records=(record,))) == []
        assert broken(story, seen(job(A), records=(record, record))) == ["C3"]

    @pytest.mark.parametrize("keeper", [Q, "other", None])
    def test_a_job_that_was_completed_on_the_other_side_of_a_server(self, story: Story, keeper: str | None) -> None:
        story.submit(A)
        story.note("bert", RecordGiven(queue="other", id="7", epoch=1, data="1"))
        story.note("bert", RecordGiven(queue="other", id="7", epoch=1, data="2"))
        story.claim(A)
        result = '{"attempt":["other","7",1]}'
        story.settle(A, path="merge", result=result)
        done = job(A, result=result)
        one, two = (RecordSeen(name=A, epoch=1, data=data) for data in "12")
        other = QueueSeen(queue="other", jobs=(), counts={}, keeps_records=keeper == "other")
        kept = {"keeps_records": keeper == Q}
        assert broken(story, seen(done, records=(one, two), **kept), other) == []
        assert broken(story, seen(done, records=(), **kept), other) == ([] if keeper else ["C3"])
        assert broken(story, seen(done, records=(one,), **kept), other) == ["C3"]

    def test_a_settlement_before_the_records(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        self.emitted(story)
        story.settle(A)
        story.note("anna", RecordsFlushed(attempts=(("a", 1),)))
        record = RecordSeen(name=A, epoch=1, data='"1"')
        assert broken(story, seen(job(A), records=(record,))) == ["C3"]


class TestFollowOns:
    CHILD: Name = ("r", "page", "child")

    def grown(self, story: Story, *, accepted: bool = True, keeps_limits: bool = False) -> JobSeen:
        story.submit(A)
        story.claim(A)
        story.settle(A, follow_ons=(self.CHILD,), accepted=accepted, keeps_limits=keeps_limits)
        return job(self.CHILD, "pending", 0, parent=("page", "a"), depth=1)

    def test_a_follow_on_of_a_refused_attempt(self, story: Story) -> None:
        child = self.grown(story, accepted=False)
        story.change("cancel", A)
        assert "C1" in broken(story, seen(job(A, "cancelled"), child))

    def test_a_follow_on_that_is_missing(self, story: Story) -> None:
        self.grown(story)
        assert broken(story, seen(job(A))) == ["C1"]

    def test_a_medium_that_keeps_limits_may_drop_a_follow_on_of_a_limited_run(self, story: Story) -> None:
        story.note("conductor", LimitsSet(queue=Q, run="r", max_depth=0))
        self.grown(story, keeps_limits=True)
        assert broken(story, seen(job(A))) == []

    def test_a_medium_that_keeps_limits_drops_nothing_of_a_run_without_limits(self, story: Story) -> None:
        story.note("conductor", LimitsSet(queue=Q, run="another", max_depth=0))
        self.grown(story, keeps_limits=True)
        assert broken(story, seen(job(A))) == ["C1"]

    def test_a_follow_on_of_a_limited_run_that_a_medium_without_limits_lost(self, story: Story) -> None:
        story.note("conductor", LimitsSet(queue=Q, run="r", max_jobs=2))
        self.grown(story)
        assert broken(story, seen(job(A))) == ["C1"]

    def test_a_follow_on_without_its_parent(self, story: Story) -> None:
        self.grown(story)
        assert broken(story, seen(job(A), job(self.CHILD, "pending", 0))) == ["C4"]

    @pytest.mark.parametrize("limits", [{"max_jobs": 1}, {"max_depth": 0}])
    def test_a_run_beyond_its_limits(self, story: Story, limits: dict[str, int]) -> None:
        story.note("conductor", LimitsSet(queue=Q, run="r", **limits))
        child = self.grown(story)
        assert broken(story, seen(job(A), child)) == ["C4"]

    def test_a_follow_on_that_found_room_before_more_came_from_outside(self, story: Story) -> None:
        story.note("conductor", LimitsSet(queue=Q, run="r", max_jobs=2))
        child = self.grown(story)
        story.submit(B)
        assert broken(story, seen(job(A), job(B, "pending", 0), child)) == []

    def test_jobs_from_outside_are_not_limited(self, story: Story) -> None:
        story.note("conductor", LimitsSet(queue=Q, run="r", max_jobs=1))
        story.submit(A, B)
        assert broken(story, seen(job(A, "pending", 0), job(B, "pending", 0))) == []


class TestCounts:
    def test_statistics_that_differ_from_the_listing(self, story: Story) -> None:
        story.submit(A)
        assert broken(story, seen(job(A, "pending", 0), counts={"pending": 0})) == ["C5"]

    def test_files_that_the_listing_does_not_show(self, story: Story) -> None:
        story.submit(A)
        assert broken(story, seen(job(A, "pending", 0), stored={"pending": 2})) == ["C5"]


class TestTheEnd:
    def test_a_job_that_is_never_done(self, story: Story) -> None:
        story.submit(A)
        assert broken(story, seen(job(A, "pending", 0), drained=True)) == ["C6"]

    def test_finished_is_said_while_jobs_are_submitted(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.settle(A)
        began = story.note("conductor", FaultSwitched(fault="none", on=True, process="conductor"))
        story.note("conductor", ReaderSaid(queue=Q, run="r", reader="wait", began=began, code=0))
        story.submit(B)
        assert broken(story, seen(job(A), job(B, "pending", 0))) == ["C6"]


class TestCharges:
    CRASH = PastAttempt(epoch=1, error_type="crash", worker="anna")

    def crashed(self, story: Story) -> JobSeen:
        story.submit(A)
        story.claim(A)
        story.claim(A, 2, by="bert")
        story.settle(A, 2, by="bert")
        return job(A, epoch=2, attempts=2, history=(self.CRASH,))

    def test_a_crash_of_a_healthy_worker(self, story: Story) -> None:
        assert broken(story, seen(self.crashed(story))) == ["C7"]

    def test_a_crash_of_a_killed_worker(self, story: Story) -> None:
        final = self.crashed(story)
        story.note("conductor", FaultSwitched(fault="SIGKILL", on=True, process="anna"))
        assert broken(story, seen(final)) == []

    def test_a_failure_that_the_handler_did_not_raise(self, story: Story) -> None:
        story.submit(A)
        story.claim(A)
        story.settle(A, outcome="failed", last=True)
        failure = PastAttempt(epoch=1, error_type="processing", worker="anna")
        assert broken(story, seen(job(A, "failed", attempts=1, history=(failure,)))) == ["C7"]

    def test_an_attempt_without_an_entry(self, story: Story) -> None:
        story.submit(A)
        assert broken(story, seen(job(A, "pending", 0, attempts=1))) == ["C7"]


class TestStatements:
    def said(self, story: Story, reader: str = "status", **more: object) -> None:
        began = story.note("conductor", FaultSwitched(fault="none", on=True, process="conductor"))
        story.note("conductor", msgspec.convert(self.event(reader, began) | more, ReaderSaid))

    @staticmethod
    def event(reader: str, began: int) -> dict[str, object]:
        return {"event": "said", "queue": Q, "run": "r", "reader": reader, "began": began}

    @pytest.mark.parametrize("counts", [{"pending": 1}, {"completed": 2}, {"completed": 1, "pending": 2}])
    def test_counts_that_were_not_true(self, story: Story, counts: dict[str, int]) -> None:
        story.submit(A, B)
        story.claim(A)
        story.settle(A)
        self.said(story, counts=counts)
        assert broken(story, seen(job(A), job(B, "pending", 0))) == ["C8"]

    def test_counts_that_were_true(self, story: Story) -> None:
        story.submit(A, B)
        story.claim(A)
        story.settle(A)
        self.said(story, counts={"completed": 1, "pending": 1})
        assert broken(story, seen(job(A), job(B, "pending", 0))) == []

    def test_all_completed_before_it_was(self, story: Story) -> None:
        story.submit(A)
        self.said(story, "wait", code=0)
        story.claim(A)
        story.settle(A)
        assert broken(story, seen(job(A))) == ["C8"]

    def test_a_worker_that_leaves_an_unfinished_run_as_done(self, story: Story) -> None:
        story.submit(A)
        story.note("bert", WorkerNamed(holder="bert"))
        story.note("conductor", ProcessEnded(process="bert", code=0, until_done="r", queue=Q))
        story.claim(A)
        story.settle(A)
        assert broken(story, seen(job(A))) == ["C8"]

    @pytest.mark.parametrize(("kinds", "rules"), [(("page", "other"), ["C8"]), (("other",), []), (None, ["C8"])])
    def test_a_worker_leaves_jobs_of_kinds_that_it_cannot_take_to_others(
        self, kinds: tuple[str, ...] | None, rules: list[str], story: Story
    ) -> None:
        story.submit(A)
        wants = Called(call=0, queue=Q, verb="claim", holder="bert", chosen=Chosen(run="r", kinds=kinds))
        story.call("bert", wants, Answered(call=0))
        story.note("conductor", ProcessEnded(process="bert", code=0, until_done="r", queue=Q))
        story.claim(A)
        story.settle(A)
        assert broken(story, seen(job(A))) == rules

    def test_a_worker_that_leaves_a_finished_run_before_more_is_submitted(self, story: Story) -> None:
        story.note("bert", WorkerNamed(holder="bert"))
        story.submit(A)
        story.note("conductor", ProcessEnded(process="bert", code=0, until_done="r", queue=Q))
        story.claim(A)
        story.settle(A)
        assert broken(story, seen(job(A))) == []

    @pytest.mark.parametrize(
        ("said", "rules"),
        [
            ({"paused": True}, []),
            ({"paused": False}, ["C8"]),
            ({"paused": True, "promised": True}, ["C8"]),
            ({}, []),
        ],
    )
    def test_what_is_said_of_a_paused_run(self, story: Story, said: dict[str, bool], rules: list[str]) -> None:
        story.submit(A)
        story.note("conductor", RunPaused(queue=Q, run="r", on=True))
        self.said(story, "top", counts={"pending": 1}, **said)
        story.note("conductor", RunPaused(queue=Q, run="r", on=False))
        assert broken(story, seen(job(A, "pending", 0))) == rules

    def test_a_pause_that_nothing_made(self, story: Story) -> None:
        story.submit(A)
        self.said(story, "top", paused=True)
        assert broken(story, seen(job(A, "pending", 0))) == ["C8"]

    def test_a_job_of_a_paused_run(self, story: Story) -> None:
        story.submit(A)
        story.note("conductor", RunPaused(queue=Q, run="r", on=True))
        story.claim(A)
        story.note("conductor", RunPaused(queue=Q, run="r", on=False))
        story.settle(A)
        assert broken(story, seen(job(A))) == ["C8"]

    def test_a_job_of_a_resumed_run(self, story: Story) -> None:
        story.submit(A)
        story.note("conductor", RunPaused(queue=Q, run="r", on=True))
        story.note("conductor", RunPaused(queue=Q, run="r", on=False))
        story.claim(A)
        story.settle(A)
        assert broken(story, seen(job(A))) == []


def calls_to_check(jobs: int) -> int:
    story, names = Story(), [("r", "page", str(number)) for number in range(jobs)]
    story.submit(*names)
    for name in names:
        story.claim(name)
        story.settle(name)
    final, calls = seen(*map(job, names), records=()), Counter[str]()
    sys.setprofile(lambda frame, event, argument: calls.update(["call"]) if event == "call" else None)
    try:
        assert check(story.histories, [final]) == []
    finally:
        sys.setprofile(None)
    return calls["call"]


def test_twice_the_history_takes_twice_the_work() -> None:
    assert calls_to_check(400) < 2.1 * calls_to_check(200)
