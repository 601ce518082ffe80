"""This machine's mirror of the remote: a bare repository that all its workers share, with two refs and two locks.

`confirmed` is the newest commit known to be on the remote's branch; only the holder of the push lock moves it. `tip` is
`confirmed` or a few commits ahead of it: commits of processes of this machine that the next push will deliver. Only the
holder of the commit lock moves it. A process that needs both locks takes the push lock first.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from longshore.errors import QueueUnavailableError
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.objects.objects import Objects
from longshore.media.git.sync.faults import lost_race, mirror_gone, translate, unanswered, unusable
from longshore.media.git.sync.git_command import NO_HOOKS_OF_REMOTE, SILENCE, GitCommand
from longshore.media.git.sync.push_lock import PushLock, instant_in
from longshore.system.atomic_file import write_atomically
from longshore.system.file_lock import FileLock
from longshore.system.private_files import make_private

CONFIRMED, TIP = "refs/longshore/confirmed", "refs/longshore/tip"
_FETCHED = "refs/longshore/fetched"
_OID = re.compile(r"[0-9a-f]{40}")
_MANY_LOOSE = 40
"""Run `git gc` when one of the 256 folders of loose objects has more files than this."""
_SILENCE_AGAIN = timedelta(seconds=4)
"""The shorter timeout for a second request to a remote that has timed out in the same turn."""


class Mirror:
    """The mirror of one remote; see the module's docstring."""

    def __init__(self, location: RepositoryLocation, cache: Path) -> None:
        self.location = location
        self._login_worked = False
        self.folder = location.mirror(cache)
        self._git = GitCommand(self.folder, location)
        try:
            self._make(cache)
            self.name = (self.folder / "longshore-ready").read_text()
            """The author of the commits that are made in this mirror."""
            self.commit_lock = FileLock(self.folder / "longshore-commit.lock")
            self.push_lock = PushLock(self.folder)
        except OSError as error:
            raise unusable(self.folder, error) from error
        self.objects = Objects(self._git)

    def close(self) -> None:
        """Release the locks, and end the reader process."""
        self.objects.close()
        self.commit_lock.release()
        self.push_lock.release()

    def _make(self, cache: Path) -> None:
        if (self.folder / "longshore-ready").exists():
            return
        make_private(cache)
        # Build it under another name and rename it: then several processes can do so at once, and none sees a part.
        building, lock = Path(tempfile.mkdtemp(dir=cache, prefix="making-")), FileLock(cache / "making.lock")
        try:
            GitCommand(building, self.location).run(
                "init", "--quiet", "--bare", "--initial-branch=unused", "--", str(building)
            )
            (building / "refs" / "longshore").mkdir()
            (building / "longshore-ready").write_text(f"{secrets.token_hex(6)}@longshore")
            lock.acquire()
            if (self.folder / "longshore-ready").exists():
                return
            if self.folder.is_dir():
                # The rest of a mirror that was deleted while a process still wrote to it.
                self.folder.rename(building / "rest")
                shutil.rmtree(building / "rest", ignore_errors=True)
            building.rename(self.folder)
        finally:
            lock.release()
            shutil.rmtree(building, ignore_errors=True)

    # Refs

    def ref(self, name: str) -> str:
        """Return the commit of a ref; "" if it was never set."""
        try:
            found = (self.folder / name).read_text().strip()
        except FileNotFoundError:
            return ""
        return found if _OID.fullmatch(found) else ""

    def set_ref(self, ref: str, oid: str) -> None:
        """Set a ref atomically; delete it if `oid` is empty."""
        if oid:
            self._replace(ref, f"{oid}\n")
        else:
            (self.folder / ref).unlink(missing_ok=True)

    @property
    def branch(self) -> str:
        """The remote branch that the refs follow; "" if none is known."""
        try:
            return (self.folder / "longshore-branch").read_text()
        except FileNotFoundError:
            return ""

    @property
    def has_queue(self) -> bool:
        """Whether the remote has a queue, as of the last fetch."""
        return bool(self.branch and self.ref(CONFIRMED))

    def set_branch(self, name: str) -> None:
        """Set the remote branch that the refs follow."""
        self._replace("longshore-branch", name)

    @property
    def contact(self) -> float:
        """When the request began whose answer `confirmed` shows: a monotonic instant, shared by the machine."""
        return instant_in(self.folder / "longshore-contact")

    def set_contact(self, began: float) -> None:
        """Record when the request began whose answer `confirmed` now shows."""
        self._replace("longshore-contact", repr(began))

    def _replace(self, name: str, content: str) -> None:
        # The temporary file is not beside the ref: git would take it for a ref.
        write_atomically(self.folder / name, content.encode(), part=self.folder / f"tmp-{secrets.token_hex(6)}")

    # The remote

    def fetch(self, branch: str) -> str | None:
        """Fetch a branch of the remote and return its head; None if there is no such branch."""
        # The first fetch is shallow; later ones bring only new commits.
        shallow = () if self.ref(CONFIRMED) else ("--depth=1",)
        code, output = self._ask_remote(
            "fetch",
            "--progress",
            "--no-tags",
            "--no-write-fetch-head",
            *shallow,
            "--",
            self.location.git_url,
            f"+refs/heads/{branch}:{_FETCHED}",
        )
        if code != 0:
            if "couldn't find remote ref" in output:
                return None
            raise translate(output, self.location, into=self.folder)
        return self.ref(_FETCHED)

    def push(self, oid: str, branch: str, expected: str) -> bool:
        """Move a branch of the remote from one commit to another. Return False if it is not at the expected one.

        The new commit always descends from the expected one, so this push never loses history. `--force-with-lease` is
        stricter than a plain push, which would recreate a branch that others have left and deleted.
        """
        ref = f"refs/heads/{branch}"
        code, output = self._ask_remote(
            "push",
            "--progress",
            "--porcelain",
            "--no-verify",
            f"--force-with-lease={ref}:{expected}",
            *([] if self.location.path is None else [f"--receive-pack={NO_HOOKS_OF_REMOTE}"]),
            "--",
            self.location.git_url,
            f"{oid}:{ref}",
        )
        if code == 0:
            return True
        if lost_race(output):
            return False
        raise translate(output, self.location)

    def delete(self, branch: str, expected: str) -> bool:
        """Delete a branch of the remote. Return False if it is not at the expected commit."""
        return self.push("", branch, expected)

    def heads(self, pattern: str) -> dict[str, str]:
        """Return the heads of the remote's branches whose names match the pattern, by name."""
        code, output = self._ask_remote(
            "ls-remote", "--heads", "--quiet", "--", self.location.git_url, f"refs/heads/{pattern}"
        )
        if code != 0:
            raise translate(output, self.location, into=self.folder)
        rows = (line.split("\t") for line in output.splitlines() if "\trefs/heads/" in line)
        return {ref.removeprefix("refs/heads/"): oid for oid, ref in rows if _OID.fullmatch(oid)}

    def _ask_remote(self, *arguments: str) -> tuple[int, str]:
        """Run a git command that contacts the remote; return its exit code and output. Held: the push lock."""
        if self.push_lock.gave_up_meanwhile:
            raise unanswered(self.location, SILENCE.total_seconds())
        self._git.first_timeout = _SILENCE_AGAIN if self.push_lock.timed_out else SILENCE
        try:
            code, output = self._git.attempt(*arguments)
            if code != 0 and self._login_worked and "Authentication failed" in output:
                # git reports this, too, if the connection breaks during the login. It has worked before: try once more.
                code, output = self._git.attempt(*arguments)
        except QueueUnavailableError:
            self.push_lock.give_up()
            raise
        self._login_worked = self._login_worked or code == 0
        if f"not a git repository: '{self.folder}'" in output:
            raise mirror_gone(self.folder)
        return code, output

    def is_ancestor(self, ancestor: str, head: str) -> bool:
        """Return whether one commit is an ancestor of another, as far as the mirror has the history."""
        code, _ = self._git.attempt("merge-base", "--is-ancestor", ancestor, head)
        return code == 0

    def local_head(self, branch: str) -> str | None:
        """Return the head of a branch without running git, if the remote is on this machine; None if it is unknown."""
        if self.location.path is None:
            return None
        for folder in (self.location.path, self.location.path / ".git"):
            try:
                found = (folder / "refs" / "heads" / branch).read_text().strip()
            except OSError:
                continue
            return found if _OID.fullmatch(found) else None
        return None

    def forget_shallow(self) -> None:
        """Forget the shallow history of a queue that is gone. Held: the push lock."""
        # A remote refuses a push whose shallow boundary is a commit that it does not have, and the first commit of
        # every queue is the same.
        for name in (_FETCHED, "shallow"):
            (self.folder / name).unlink(missing_ok=True)

    def gc(self) -> None:
        """Run `git gc` if there are many loose objects. Safe while others work: it keeps objects of the last hour."""
        try:
            needed = len(list((self.folder / "objects" / "17").iterdir())) > _MANY_LOOSE
        except FileNotFoundError:
            needed = False
        if needed:
            self._git.attempt("-c", "gc.packRefs=false", "gc", "--quiet", "--prune=1.hour.ago")


def now() -> float:
    """Return the machine's monotonic time, which all its processes share."""
    return time.monotonic()
