"""This machine's mirror of the remote: a bare repository that all of its workers share, two marks in it, two locks.

`confirmed` is the newest commit known to be on the remote's branch; only who holds the push lock moves it. `tip` is
`confirmed` or stands a few commits ahead of it: what processes of this machine have committed and one of them is about
to push. Only who holds the commit lock moves it. The push lock is taken first where both are needed.
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
from longshore.media.git.sync.git_command import SILENCE, GitCommand
from longshore.media.git.sync.remote_turn import RemoteTurn, instant_in
from longshore.system.atomic_file import write_atomically
from longshore.system.file_lock import FileLock

CONFIRMED, TIP = "refs/longshore/confirmed", "refs/longshore/tip"
_FETCHED = "refs/longshore/fetched"
_OID = re.compile(r"[0-9a-f]{40}")
_MANY_LOOSE = 40
"""Files in one of the 256 folders of loose objects, above which the mirror is packed."""
_SILENCE_AGAIN = timedelta(seconds=4)
"""A remote that was given up a moment ago is asked once more, and is given up sooner."""


class Mirror:
    """See the module."""

    def __init__(self, location: RepositoryLocation, cache: Path) -> None:
        self.location = location
        self.folder = location.mirror(cache)
        self._git = GitCommand(self.folder, location)
        try:
            self._make(cache)
            self.name = (self.folder / "longshore-ready").read_text()
            """What this mirror is called in the commits that are made in it."""
            self.commit_lock = FileLock(self.folder / "longshore-commit.lock")
            self.push_lock = RemoteTurn(self.folder)
        except OSError as error:
            raise unusable(self.folder, error) from error
        self.objects = Objects(self._git)

    def close(self) -> None:
        """Let go of files and processes."""
        self.objects.close()
        self.commit_lock.release()
        self.push_lock.release()

    def _make(self, cache: Path) -> None:
        if (self.folder / "longshore-ready").exists():
            return
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made aside and renamed, so that a mirror is there whole or not at all, whoever makes it at the same time.
        aside = Path(tempfile.mkdtemp(dir=cache, prefix="making-"))
        try:
            GitCommand(aside, self.location).run(
                "init", "--quiet", "--bare", "--initial-branch=unused", "--", str(aside)
            )
            (aside / "refs" / "longshore").mkdir()
            (aside / "longshore-ready").write_text(f"{secrets.token_hex(6)}@longshore")
            aside.rename(self.folder)
        except BaseException as error:
            shutil.rmtree(aside, ignore_errors=True)
            if not isinstance(error, OSError) or not (self.folder / "longshore-ready").exists():
                raise

    # Marks

    def mark(self, ref: str) -> str:
        """Where a mark stands; empty where it was never set."""
        try:
            found = (self.folder / ref).read_text().strip()
        except FileNotFoundError:
            return ""
        return found if _OID.fullmatch(found) else ""

    def set_mark(self, ref: str, oid: str) -> None:
        """Set a mark, whole or not at all; take it away where there is no commit to stand at."""
        if oid:
            self._replace(ref, f"{oid}\n")
        else:
            (self.folder / ref).unlink(missing_ok=True)

    @property
    def branch(self) -> str:
        """The branch that the marks are about; empty where none is known."""
        try:
            return (self.folder / "longshore-branch").read_text()
        except FileNotFoundError:
            return ""

    @property
    def has_queue(self) -> bool:
        """Whether there is a queue on the remote, as far as is known here."""
        return bool(self.branch and self.mark(CONFIRMED))

    def set_branch(self, name: str) -> None:
        """Say which branch the marks are about."""
        self._replace("longshore-branch", name)

    @property
    def contact(self) -> float:
        """When the remote was last asked, with an answer that `confirmed` shows: monotonic, shared by the machine."""
        return instant_in(self.folder / "longshore-contact")

    def set_contact(self, began: float) -> None:
        """The remote was asked at this instant, and `confirmed` shows its answer."""
        self._replace("longshore-contact", repr(began))

    def _replace(self, name: str, content: str) -> None:
        # Not beside a ref: git would see it there.
        write_atomically(self.folder / name, content.encode(), part=self.folder / f"tmp-{secrets.token_hex(6)}")

    # The remote

    def fetch(self, branch: str) -> str | None:
        """The commit at the head of a branch of the remote, brought here with all it needs; None if there is none."""
        # Without the history before it the first time, and only what is new from then on.
        shallow = () if self.mark(CONFIRMED) else ("--depth=1",)
        code, said = self._talk(
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
            if "couldn't find remote ref" in said:
                return None
            raise translate(said, self.location, into=self.folder)
        return self.mark(_FETCHED)

    def push(self, oid: str, branch: str, expected: str) -> bool:
        """Move a branch of the remote from one commit to another. False if it does not stand at the expected one.

        The new commit always descends from the expected one, so this is never a forced push in the sense of lost
        history. The lease is stricter than a plain push: that would make a branch anew which others have left.
        """
        ref = f"refs/heads/{branch}"
        code, said = self._talk(
            "push",
            "--progress",
            "--porcelain",
            "--no-verify",
            f"--force-with-lease={ref}:{expected}",
            "--",
            self.location.git_url,
            f"{oid}:{ref}",
        )
        if code == 0:
            return True
        if lost_race(said):
            return False
        raise translate(said, self.location)

    def delete(self, branch: str, expected: str) -> bool:
        """Delete a branch of the remote that stands at this commit. False if it does not."""
        return self.push("", branch, expected)

    def heads(self, pattern: str) -> dict[str, str]:
        """The branches of the remote whose names fit, and their heads."""
        code, said = self._talk("ls-remote", "--heads", "--quiet", "--", self.location.git_url, f"refs/heads/{pattern}")
        if code != 0:
            raise translate(said, self.location, into=self.folder)
        rows = (line.split("\t") for line in said.splitlines() if "\trefs/heads/" in line)
        return {ref.removeprefix("refs/heads/"): oid for oid, ref in rows if _OID.fullmatch(oid)}

    def _talk(self, *arguments: str) -> tuple[int, str]:
        """What git has to say after a conversation with the remote. Held: the push lock."""
        if self.push_lock.in_vain:
            raise unanswered(self.location, SILENCE.total_seconds())
        self._git.patience = _SILENCE_AGAIN if self.push_lock.unanswered else SILENCE
        try:
            code, said = self._git.attempt(*arguments)
        except QueueUnavailableError:
            self.push_lock.give_up()
            raise
        if f"not a git repository: '{self.folder}'" in said:
            raise mirror_gone(self.folder)
        return code, said

    def glance(self, branch: str) -> str | None:
        """The head of a branch of a repository on this machine, without asking git; None where that cannot be told."""
        if self.location.path is None:
            return None
        for folder in (self.location.path, self.location.path / ".git"):
            try:
                found = (folder / "refs" / "heads" / branch).read_text().strip()
            except OSError:
                continue
            return found if _OID.fullmatch(found) else None
        return None

    def start_over(self) -> None:
        """Forget the history of a queue that is gone. Held: the push lock."""
        # A commit that is noted as the edge of a shallow history is refused by a remote that does not have it, and the
        # first commit of every queue is the same.
        for name in (_FETCHED, "shallow"):
            (self.folder / name).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Pack the mirror where it has grown untidy. Safe while others work: what is younger than an hour stays."""
        try:
            untidy = len(list((self.folder / "objects" / "17").iterdir())) > _MANY_LOOSE
        except FileNotFoundError:
            untidy = False
        if untidy:
            self._git.attempt("-c", "gc.packRefs=false", "gc", "--quiet", "--prune=1.hour.ago")


def now() -> float:
    """The machine's own monotonic clock: the one that all its processes share."""
    return time.monotonic()
