"""How operations become part of the branch, whoever else pushes at the same time.

Authority
    The branch on the remote. What is not an ancestor of its head did not happen; what is, did.

Invariants
    - Every commit is a legal state of the whole queue: a file stands in one place, counters fit, follow-on jobs and
      results come with the settlement that brought them.
    - The branch only moves forward, from a commit the pusher has built upon: push is the compare-and-swap. Nothing is
      merged; who is refused throws its commits away and applies its operations to what is there now.
    - An answer is given only when the commit it was worked out on is known to have been the remote's head at some
      instant after the call began.
    - The processes of a machine share one mirror. Each commits onto its tip under the commit lock (milliseconds, no
      network); whoever gets the push lock next pushes all that has gathered there, for everyone. The calls of one
      process that arrive during a push share the next commit.

Deadlines
    Nothing here compares clocks of two machines. A lease has expired for an observer whose monotonic clock has moved by
    more than the lease since it last saw the worker's heartbeat file change. Delays (`not_before`) are instants, read
    by the clock of whoever claims.

Failures
    - Killed before its commit is at the tip: nothing happened. After: somebody's next push brings it, or a refusal
      throws it away; the caller never had an answer, so either is right.
    - Refused: let others go first (see `crowd`), fetch, apply again.
    - The remote does not answer, before or after it took the push: a fetch tells which, if there is one to be had. Else
      the tip goes back to what is confirmed, and the callers get `QueueUnavailableError` and may call again.
    - The mirror is damaged: it is a cache; it says so, and may be deleted.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueError, QueueUnavailableError
from longshore.media.git.objects.commit import commit_of, field_of
from longshore.media.git.objects.mirror import CONFIRMED, TIP, Mirror, now
from longshore.media.git.objects.objects import MissingError
from longshore.media.git.objects.tree import Tree
from longshore.media.git.state.branch_state import BranchState
from longshore.media.git.state.operations import Claim, Operation
from longshore.media.git.state.upgrade import bring_over
from longshore.media.git.sync.branches import POINTER, Branches
from longshore.media.git.sync.push_contention import PushContention

log = logging.getLogger(__name__)

_TIDY_EVERY = 200
"""Pushes between two looks at whether the mirror should be packed."""
_FRESH = 1.0
"""Seconds for which what was last seen of a remote elsewhere is good enough for a look."""


class Traffic(msgspec.Struct):
    """What it took to get through to the remote, for this process."""

    pushes: int = 0
    """Pushes tried."""
    refused: int = 0
    """Those that were refused because another was faster."""
    fetches: int = 0
    lost_races: int = 0
    """Claims that had to be made again."""


class Refused(NamedTuple):
    """In place of an answer: why this operation, alone of those that came with it, cannot be done."""

    reason: Exception


class BranchSync:
    """See the module. Used by one thread at a time."""

    def __init__(self, mirror: Mirror, clock: Clock) -> None:
        self.mirror = mirror
        self.traffic = Traffic()
        self._clock = clock
        self._ledger = self._new_ledger()
        self._at = ""
        """The commit the ledger stands at."""
        self._branches = Branches(mirror)
        self._crowd = PushContention(mirror.name)
        self._looked = now()
        """When the try that is under way began."""
        self._blind = False
        """The remote has not answered since it was last asked."""

    def open(self) -> None:
        """Find the queue on the remote. Where there is none, the first change makes it; looking makes nothing."""
        with self.mirror.push_lock:
            # Of a fleet that starts on one machine the first one asks.
            if not self.mirror.has_queue or not self._is_current(self.mirror.mark(CONFIRMED), now() - _FRESH):
                self._fetch()
            self.mirror.tidy()
        self._stand_at(self.mirror.mark(CONFIRMED))

    def perform(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Apply operations, make them part of the branch, and return their answers; `Refused` for those without one."""
        try:
            return self._perform(operations)
        except QueueUnavailableError:
            self._blind = True
            raise

    def look(self) -> BranchState:
        """The ledger at what is confirmed, asking the remote again where the last look was too long ago."""
        if not self._is_current(self.mirror.mark(CONFIRMED), now() - _FRESH):
            try:
                self.refresh(now() - _FRESH)
            except QueueUnavailableError:
                self._blind = True
                raise
        with self.mirror.commit_lock:
            self._stand_at(self.mirror.mark(CONFIRMED))
        return self._ledger

    def refresh(self, began: float) -> None:
        """Bring in what others have pushed, unless a process of this machine has done so since that instant."""
        with self.mirror.push_lock:
            if not self._is_current(self.mirror.mark(CONFIRMED), began):
                self._fetch()
        self._can_see()

    def new_generation(self) -> None:
        """Leave the history behind: go on, on a new branch, with what is there now."""
        with self.mirror.push_lock:
            for _ in range(20):
                self._fetch()
                if not self.mirror.has_queue:
                    return
                begun = self._branches.renew(self.mirror.branch, self.mirror.mark(CONFIRMED), int(self._clock.now()))
                if begun is not None:
                    branch, head = begun
                    self._set_marks(head, branch)
                    return
        raise QueueUnavailableError(
            f"'{self.mirror.location.shown}' is too busy to begin a new generation now. Nothing was changed; try again."
        )

    def signs(self) -> tuple[str, str | None]:
        """Two words that change whenever something was pushed from this machine, or to a remote on this machine."""
        return self.mirror.mark(CONFIRMED), self.mirror.glance(self.mirror.branch or POINTER)

    def _perform(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        began = now()
        claims = sum(isinstance(operation, Claim) for operation in operations)
        lost = 0
        time.sleep(self._crowd.pause(now(), refused=False))
        self._looked = now()
        if self._crowd.is_stale(self.mirror.contact, self._looked):
            # A push that is refused costs more than a look.
            self.refresh(self._looked)
        for tries in count(1):
            with self.mirror.commit_lock:
                contact, confirmed = self.mirror.contact, self.mirror.mark(CONFIRMED)
                answers = self._apply(operations, claims, lost) if self.mirror.has_queue else None
                mine = self._at
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
        """The answers where there is no queue yet; None if there is one now, or was made because it takes one."""
        self.refresh(began)
        if self.mirror.has_queue:
            return None
        nothing, instant = self._new_ledger(), self._clock.now()
        answers = [operation.apply(nothing, instant) for operation in operations]
        if not nothing.changed:
            return answers
        with self.mirror.push_lock:
            if not self.mirror.has_queue:
                branch, head = self._branches.make()
                self._set_marks(head, branch)
        return None

    def _apply(self, operations: Sequence[Operation[Any]], claims: int, lost: int) -> list[Any]:
        """The answers of operations at the tip, and a commit of what they changed.

        One that cannot be done has its error for an answer. Nothing of it is done, and the others know nothing of it.
        """
        refused: dict[int, Refused] = {}
        try:
            while (answers := self._answers(operations, refused)) is None:
                self._forget_all()  # the last one that was refused may have been done in part
            if self._ledger.changed:
                if claims:
                    self._ledger.tally(claims=claims, lost=lost)
                self._commit(_message(operations))
        except BaseException:
            self._forget_all()
            raise
        return answers

    def _answers(self, operations: Sequence[Operation[Any]], refused: dict[int, Refused]) -> list[Any] | None:
        """The answers of all but those that are refused; None if there is one more of these."""
        self._stand_at(self.mirror.mark(TIP) or self.mirror.mark(CONFIRMED))
        bring_over(self._ledger)
        instant = self._clock.now()
        answers: list[Any] = []
        for number, operation in enumerate(operations):
            if number in refused:
                answers.append(refused[number])
                continue
            try:
                answers.append(operation.apply(self._ledger, instant))
            except (QueueError, OSError):
                raise
            except Exception as error:  # noqa: BLE001 - handed to the one whose call it was
                refused[number] = Refused(error)
                return None
        return answers

    def _deliver(self, mine: str, base: str) -> bool:
        """Whether this commit has become part of the branch; False if it was thrown away."""
        with self.mirror.push_lock:
            confirmed, tip = self.mirror.mark(CONFIRMED), self.mirror.mark(TIP)
            if self._contains(confirmed, mine, base):
                return True
            if not self._contains(tip, mine, base):
                return False
            try:
                return self._push(tip, confirmed) or self._after_refusal(mine, base)
            except QueueError as error:
                self._set_marks(confirmed, self.mirror.branch)
                if error.retryable and self._arrived(mine, base):
                    return True
                raise

    def _arrived(self, mine: str, base: str) -> bool:
        """Whether a push got through although its answer did not, as far as the remote can be asked."""
        try:
            return self._contains(self._fetch(), mine, base)
        except QueueUnavailableError:
            return False

    def _push(self, tip: str, confirmed: str) -> bool:
        if not self._is_current(confirmed, float("inf"), otherwise=True):
            return False  # seen without a push that it would be refused
        if not self._contains(tip, confirmed, ""):
            # Marks that do not belong together: the remote would not refuse the push, and others' work would be lost.
            self._set_marks(confirmed, self.mirror.branch)
            return False
        began = now()
        self.traffic.pushes += 1
        accepted = self.mirror.push(tip, self.mirror.branch, confirmed)
        self._crowd.took(now() - self._looked)
        if accepted:
            self._crowd.won(now())
            self._can_see()
            if self.traffic.pushes % _TIDY_EVERY == 0:
                self.mirror.tidy()
            with self.mirror.commit_lock:
                self.mirror.set_mark(CONFIRMED, tip)
                self.mirror.set_contact(began)
        else:
            self.traffic.refused += 1
        return accepted

    def _after_refusal(self, mine: str, base: str) -> bool:
        time.sleep(self._crowd.pause(now(), refused=True))
        self._looked = now()
        # A push whose answer got lost looks like one that another has overtaken.
        return self._contains(self._fetch(), mine, base)

    def _fetch(self) -> str:
        """Take in what is on the remote. Returns the head of the branch as it was known; empty where there is no queue.

        Held: the push lock.
        """
        began = now()
        self.traffic.fetches += 1
        known = self.mirror.branch
        head = self.mirror.fetch(known) if known else None
        if head is None:
            branch, newest = self._branches.find() or ("", "")
        elif moved_to := self._branches.moved_to(known, head):
            branch, newest = self._branches.follow(moved_to) or self._branches.find() or ("", "")
        else:
            branch, newest = known, head
        if (branch, newest) != (known, self.mirror.mark(CONFIRMED)):
            self._set_marks(newest, branch)
            if not newest:
                self.mirror.start_over()
        with self.mirror.commit_lock:
            self.mirror.set_contact(began)
        return head or newest

    def _set_marks(self, oid: str, branch: str) -> None:
        """Stand at this commit, or at none, and throw away what was about to be pushed."""
        with self.mirror.commit_lock:
            self.mirror.set_branch(branch)
            # The tip first. One that is newer than what is confirmed is refused by the remote; one that does not
            # descend from it would overwrite what others pushed, if a process died between the two.
            self.mirror.set_mark(TIP, oid)
            self.mirror.set_mark(CONFIRMED, oid)

    def _is_current(self, confirmed: str, since: float, *, otherwise: bool = False) -> bool:
        """Whether the remote's head is known to have been this commit at that instant or later."""
        head = self.mirror.glance(self.mirror.branch or POINTER)
        if head is not None:
            return head == confirmed
        return otherwise or self.mirror.contact >= since

    def _contains(self, head: str, ancestor: str, base: str) -> bool:
        """Whether a commit is `head` or one of its ancestors after `base`."""
        at = head
        while at and at not in {ancestor, base}:
            try:
                at = field_of(self.mirror.objects.read(at), b"parent")
            except MissingError:
                return False  # beyond the edge of a shallow mirror
        return at == ancestor

    def _can_see(self) -> None:
        """The remote has answered. Nobody's heartbeat could be seen while it did not: silence counts from now."""
        if self._blind:
            self._blind = False
            self._ledger.heartbeats.watch_anew()

    def _stand_at(self, commit: str) -> None:
        if commit == self._at:
            return
        if not commit:
            # Somebody took the queue away, or there is none yet.
            self._forget_all()
            return
        if self._at:
            self._crowd.saw(self._authors(commit), now())
        try:
            self._ledger.move_to(Tree(field_of(self.mirror.objects.read(commit), b"tree")))
        except BaseException:
            self._forget_all()
            raise
        self._at = commit

    def _authors(self, head: str) -> Iterator[str]:
        """Who made the commits from here back to where the ledger stands."""
        at = head
        for _ in range(100):
            try:
                commit = self.mirror.objects.read(at)
            except MissingError:
                return
            yield field_of(commit, b"author").partition("<")[2].partition(">")[0]
            at = field_of(commit, b"parent")
            if at in {"", self._at}:
                return

    def _commit(self, message: str) -> None:
        made = self._ledger.commit()
        made.append(
            commit_of(self._ledger.tree.write([]), self._at, int(self._clock.now()), message, by=self.mirror.name)
        )
        self.mirror.objects.write(made)
        self._at = made[-1].oid
        self.mirror.set_mark(TIP, self._at)

    def _forget_all(self) -> None:
        """Begin with an empty ledger: what was taken in or applied in part must not be seen by anyone."""
        heartbeats = self._ledger.heartbeats
        self._ledger, self._at = self._new_ledger(), ""
        # Or nobody would ever be silent for long enough where calls fail again and again.
        self._ledger.heartbeats.remember(heartbeats)

    def _new_ledger(self) -> BranchState:
        return BranchState(self.mirror.objects, self._clock.monotonic)


def _message(operations: Sequence[Operation[Any]]) -> str:
    verbs = Counter(operation.verb for operation in operations)
    return ", ".join(verb if number == 1 else f"{verb} ×{number}" for verb, number in verbs.items())
