"""The protocol that makes operations part of the branch while other machines push to it.

Authority
    The branch on the remote. A commit counts if, and only if, it is the head of that branch or an ancestor of it.

Invariants
    - Every commit is a valid state of the whole queue: each job has one file, counters are right, and follow-on jobs
      and results are in the same commit as their settlement.
    - The branch only moves forward (fast-forward), from the commit that the pusher has built upon: push is the
      compare-and-swap. Nothing is merged; a refused pusher discards its commits and applies its operations again to
      the new head.
    - A call returns only when the commit that its answer is based on is known to have been the remote's head at some
      instant after the call began.
    - The processes of a machine share one mirror. Each commits onto its tip under the commit lock (milliseconds, no
      network); the next holder of the push lock pushes all commits up to the tip, for all processes. The calls of one
      process that arrive during a push share the next commit.

Deadlines
    Clocks of two machines are never compared. A lease has expired for an observer when, by its own monotonic clock, the
    worker's heartbeat file has not changed for longer than the lease. Delays (`not_before`) are instants; the claiming
    process compares them with its own clock.

Failures
    - A process is killed before its commit is at the tip: nothing happened. After that: the next push of any process
      delivers the commit, or a refusal discards it; the caller never got an answer, so both are correct.
    - A push is refused: let others go first (see `push_contention`), fetch, apply again.
    - The remote does not answer, before or after it took the push: a fetch shows which, if it succeeds. If not, the tip
      is reset to the confirmed commit, and the callers get `QueueUnavailableError` and may call again.
    - The branch is set back (force-pushed, or restored from a backup): a mirror that has seen a newer commit refuses
      it, because finished jobs would be done again without a word. A new mirror cannot know.
    - The mirror is damaged: the error says so; the mirror is a cache and may be deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec

from longshore.clock import Clock
from longshore.errors import PassingQueueError, QueueError, QueueUnavailableError
from longshore.media.git.objects.commit import commit_of, field_of
from longshore.media.git.objects.mirror import CONFIRMED, TIP, Mirror, now
from longshore.media.git.objects.objects import MissingError
from longshore.media.git.objects.tree import Tree
from longshore.media.git.state.branch_state import BranchState
from longshore.media.git.state.commit_message import commit_message
from longshore.media.git.state.operations import Claim, Operation
from longshore.media.git.state.repair import repair
from longshore.media.git.state.upgrade import upgrade_names
from longshore.media.git.sync.branches import POINTER, Branches
from longshore.media.git.sync.faults import set_back
from longshore.media.git.sync.push_contention import PushContention
from longshore.media.sightings import Sightings

log = logging.getLogger(__name__)

_GC_EVERY = 200
"""Pushes between two checks whether the mirror needs `git gc`."""
_GENERATION_PATIENCE = 60.0
"""Seconds for which a new generation is tried while other machines push."""
_FRESH = 1.0
"""Seconds for which the last fetch from a remote on another machine is recent enough for reads."""


class Traffic(msgspec.Struct):
    """The requests of this process to the remote."""

    pushes: int = 0
    """Pushes attempted."""
    refused: int = 0
    """Pushes that were refused because another one came first."""
    fetches: int = 0
    lost_races: int = 0
    """Claims that had to be made again."""


class Refused(NamedTuple):
    """In place of an answer: the reason why one operation of a batch cannot be done."""

    reason: Exception


class BranchSync:
    """Applies operations to the branch; see the module's docstring. Used by one thread at a time."""

    def __init__(self, mirror: Mirror, clock: Clock) -> None:
        self.mirror = mirror
        self.traffic = Traffic()
        self._clock = clock
        self._sightings = Sightings(clock.monotonic, clock.boot, mirror.folder / "longshore-seen")
        self._state = self._new_state()
        self._head = ""
        """The commit that `_state` represents."""
        self._branches = Branches(mirror)
        self._contention = PushContention(mirror.name)
        self._attempt_began = now()
        """When the current attempt began."""
        self._unanswered = False
        """Whether the last request to the remote failed: nothing, or no heartbeat, could be written or read."""

    def open(self) -> None:
        """Find the queue on the remote. If there is none, the first change creates it; reads create nothing."""
        with self.mirror.push_lock:
            # When many processes of a machine start at once, only the first one fetches.
            if not self.mirror.has_queue or not self._is_current(self.mirror.ref(CONFIRMED), now() - _FRESH):
                self._fetch()
            self.mirror.gc()
        self._move_to(self.mirror.ref(CONFIRMED))

    def perform(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Apply operations, push them, and return their answers; `Refused` for an operation that cannot be done."""
        try:
            return self._perform(operations)
        except PassingQueueError:
            self._unanswered = True
            raise

    def fresh_state(self) -> BranchState:
        """Return the state at the confirmed commit; fetches first if the last fetch is too old."""
        if not self._is_current(self.mirror.ref(CONFIRMED), now() - _FRESH):
            try:
                self.refresh(now() - _FRESH)
            except PassingQueueError:
                self._unanswered = True
                raise
        with self.mirror.commit_lock:
            self._move_to(self.mirror.ref(CONFIRMED))
            self._sightings.save()
        return self._state

    def refresh(self, began: float) -> None:
        """Fetch what others have pushed, unless a process of this machine has done so since `began`."""
        with self.mirror.push_lock:
            if not self._is_current(self.mirror.ref(CONFIRMED), began):
                self._fetch()
        self._remote_answered()

    def new_generation(self) -> None:
        """Continue on a new branch that has the current files and no history."""
        with self.mirror.push_lock:
            until = now() + _GENERATION_PATIENCE
            while now() < until:
                self._fetch()
                if not self.mirror.has_queue:
                    return
                begun = self._branches.begin_generation(
                    self.mirror.branch, self.mirror.ref(CONFIRMED), int(self._clock.now())
                )
                if begun is not None:
                    branch, head = begun
                    self._set_refs(head, branch)
                    return
        raise QueueUnavailableError(
            f"No new generation was begun on '{self.mirror.location.shown}', because others push to it all the time. "
            "Nothing was changed; try again."
        )

    def change_token(self) -> tuple[str, str | None]:
        """Return a value that changes with every push from this machine or to a remote on this machine."""
        return self.mirror.ref(CONFIRMED), self._local_head()

    def _perform(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        began = now()
        claims = sum(isinstance(operation, Claim) for operation in operations)
        lost = 0
        time.sleep(self._contention.pause(now(), refused=False))
        self._attempt_began = now()
        if self._contention.is_stale(self.mirror.contact, self._attempt_began):
            # A fetch costs less than a refused push.
            self.refresh(self._attempt_began)
        for tries in count(1):
            with self.mirror.commit_lock:
                contact, confirmed = self.mirror.contact, self.mirror.ref(CONFIRMED)
                answers = self._apply(operations, claims, lost) if self.mirror.has_queue else None
                mine = self._head
            if answers is None:
                if (answers := self._without_queue(operations, began)) is not None:
                    return answers
            elif mine == confirmed:
                if contact >= began or self._is_current(confirmed, began):
                    return answers
                self.refresh(began)
            elif self._deliver(mine, confirmed):
                return answers
            elif claims:
                lost += claims
                self.traffic.lost_races += claims
                level = logging.INFO if tries == 1 else logging.DEBUG
                log.log(level, "lost claim race on %s; trying again", self.mirror.location.shown)
        raise AssertionError  # pragma: no cover - the count has no end

    def _without_queue(self, operations: Sequence[Operation[Any]], began: float) -> list[Any] | None:
        """Return the answers if there is no queue and none is needed; None if there is one now, maybe just created."""
        self.refresh(began)
        if self.mirror.has_queue:
            return None
        nothing, instant = self._new_state(), self._clock.now()
        answers = [operation.apply(nothing, instant) for operation in operations]
        if not nothing.changed:
            return answers
        with self.mirror.push_lock:
            if not self.mirror.has_queue:
                branch, head = self._branches.make()
                self._set_refs(head, branch)
        return None

    def _apply(self, operations: Sequence[Operation[Any]], claims: int, lost: int) -> list[Any]:
        """Apply operations at the tip, commit their changes, and return their answers.

        The answer of an operation that fails is its error; it changes nothing and does not affect the others.
        """
        refused: dict[int, Refused] = {}
        try:
            while (answers := self._answers(operations, refused)) is None:
                self._reset()  # the operation that failed last may have been applied in part
            if self._state.changed:
                if claims:
                    self._state.count_claims(claims=claims, lost=lost)
                self._commit(_message(operations, answers))
        except BaseException:
            self._reset()
            raise
        return answers

    def _answers(self, operations: Sequence[Operation[Any]], refused: dict[int, Refused]) -> list[Any] | None:
        """Return the answers of all operations not in `refused`; None if one more failed and was added to it."""
        self._move_to(self.mirror.ref(TIP) or self.mirror.ref(CONFIRMED))
        upgrade_names(self._state)
        repair(self._state)
        instant = self._clock.now()
        answers: list[Any] = []
        for number, operation in enumerate(operations):
            if number in refused:
                answers.append(refused[number])
                continue
            try:
                answers.append(operation.apply(self._state, instant))
            except (QueueError, OSError):
                raise
            except Exception as error:  # noqa: BLE001 - handed to the caller of the operation
                refused[number] = Refused(error)
                return None
        return answers

    def _deliver(self, mine: str, base: str) -> bool:
        """Push the tip. Return whether the commit `mine`, made on top of `base`, is part of the branch now.

        If not, it was discarded: its operations must be applied again.
        """
        with self.mirror.push_lock:
            confirmed, tip = self.mirror.ref(CONFIRMED), self.mirror.ref(TIP)
            if self._contains(confirmed, mine, base):
                return True
            if not self._contains(tip, mine, base):
                return False
            try:
                return self._push(tip, confirmed) or self._after_refusal(mine, base)
            except QueueError as error:
                self._set_refs(confirmed, self.mirror.branch)
                if error.retryable and self._arrived(mine, base):
                    return True
                raise

    def _arrived(self, mine: str, base: str) -> bool:
        """Return whether `mine` was pushed although the answer was lost; False if the remote cannot be asked."""
        try:
            return self._contains(self._fetch(), mine, base)
        except PassingQueueError:
            return False

    def _push(self, tip: str, confirmed: str) -> bool:
        if self._local_head() not in {None, confirmed}:
            return False  # the push would be refused
        if not self._contains(tip, confirmed, ""):
            # The tip does not descend from `confirmed`: the remote would accept the push, and lose others' commits.
            self._set_refs(confirmed, self.mirror.branch)
            return False
        began = now()
        self.traffic.pushes += 1
        accepted = self.mirror.push(tip, self.mirror.branch, confirmed)
        self._contention.record_attempt(now() - self._attempt_began)
        if accepted:
            self._contention.record_success(now())
            self._remote_answered()
            if self.traffic.pushes % _GC_EVERY == 0:
                self.mirror.gc()
            with self.mirror.commit_lock:
                self.mirror.set_ref(CONFIRMED, tip)
                self.mirror.set_contact(began)
        else:
            self.traffic.refused += 1
        return accepted

    def _after_refusal(self, mine: str, base: str) -> bool:
        time.sleep(self._contention.pause(now(), refused=True))
        self._attempt_began = now()
        # A push whose answer was lost looks like a refused one.
        return self._contains(self._fetch(), mine, base)

    def _fetch(self) -> str:
        """Fetch the branch and move the refs to it; follow the queue if it moved to another branch.

        Return the head of the branch that was known before, if it still exists; else the head of the branch that was
        found, "" if there is no queue. The caller holds the push lock.
        """
        began = now()
        self.traffic.fetches += 1
        known, confirmed = self.mirror.branch, self.mirror.ref(CONFIRMED)
        head = self.mirror.fetch(known) if known else None
        if head is None:
            branch, newest = self._branches.find() or ("", "")
        elif moved_to := self._branches.moved_to(known, head):
            branch, newest = self._branches.follow(moved_to) or self._branches.find() or ("", "")
        else:
            branch, newest = known, head
        if confirmed and self._branches.were_set_back(known, confirmed, head, (branch, newest)):
            raise set_back(self.mirror.location, known, confirmed, self.mirror.folder)
        if (branch, newest) != (known, confirmed):
            self._set_refs(newest, branch)
            if not newest:
                self.mirror.forget_shallow()
        with self.mirror.commit_lock:
            self.mirror.set_contact(began)
        return head or newest

    def _set_refs(self, oid: str, branch: str) -> None:
        """Set both refs to this commit, or to none, and discard commits that were not pushed."""
        with self.mirror.commit_lock:
            self.mirror.set_branch(branch)
            # The tip first, in case the process dies between the two writes: the next push then expects the old
            # `confirmed` as the remote's head and is refused. In the other order, the old tip would be pushed over
            # the new `confirmed`, from which it may not descend, and overwrite what others pushed.
            self.mirror.set_ref(TIP, oid)
            self.mirror.set_ref(CONFIRMED, oid)

    def _is_current(self, confirmed: str, since: float) -> bool:
        """Return whether the remote's head is known to have been `confirmed` at `since` or later."""
        head = self._local_head()
        return self.mirror.contact >= since if head is None else head == confirmed

    def _local_head(self) -> str | None:
        """Return the head of the remote's branch if the remote is on this machine; None if it must be fetched."""
        return self.mirror.local_head(self.mirror.branch or POINTER)

    def _contains(self, head: str, ancestor: str, base: str) -> bool:
        """Return whether `ancestor` is `head`, or an ancestor of it that is newer than `base`."""
        at = head
        while at and at not in {ancestor, base}:
            try:
                at = field_of(self.mirror.objects.read(at), b"parent")
            except MissingError:
                return False  # beyond the boundary of a shallow mirror
        return at == ancestor

    def _remote_answered(self) -> None:
        """If the remote had trouble before, restart the silence of all workers: no heartbeat could be seen."""
        if self._unanswered:
            self._unanswered = False
            self._sightings.restart()

    def _move_to(self, commit: str) -> None:
        if commit == self._head:
            return
        if not commit:
            # The queue was deleted, or there is none yet.
            self._reset()
            return
        if self._head:
            self._contention.record_pushes(self._authors(commit), now())
        try:
            self._state.move_to(Tree(field_of(self.mirror.objects.read(commit), b"tree")))
        except BaseException:
            self._reset()
            raise
        self._head = commit

    def _authors(self, head: str) -> Iterator[str]:
        """Yield the authors of the newest commits, from `head` back to the commit after `_head`; of 100 at most."""
        at = head
        for _ in range(100):
            try:
                commit = self.mirror.objects.read(at)
            except MissingError:
                return
            yield field_of(commit, b"author").partition("<")[2].partition(">")[0]
            at = field_of(commit, b"parent")
            if at in {"", self._head}:
                return

    def _commit(self, message: str) -> None:
        made = self._state.commit()
        made.append(
            commit_of(self._state.tree.write([]), self._head, int(self._clock.now()), message, by=self.mirror.name)
        )
        self.mirror.objects.write(made)
        self._head = made[-1].oid
        self.mirror.set_ref(TIP, self._head)

    def _reset(self) -> None:
        """Start again with an empty state: one that was updated in part must not be used."""
        # The sightings stay, or no worker would ever count as silent while calls keep failing.
        self._state, self._head = self._new_state(), ""

    def _new_state(self) -> BranchState:
        return BranchState(self.mirror.objects, self._clock, self._sightings)


def _message(operations: Sequence[Operation[Any]], answers: Sequence[Any]) -> str:
    done = [each for each in zip(operations, answers, strict=True) if not isinstance(each[1], Refused)]
    return commit_message([operation for operation, _ in done], [answer for _, answer in done])
