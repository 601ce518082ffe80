"""Child processes for plain handlers: started when first needed, used again, and killed at a timeout."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import msgspec

from longshore.errors import CrashedError
from longshore.handlers.load import loaded_content
from longshore.worker.children.child_process import ChildProcess
from longshore.worker.children.guardian import end_tree
from longshore.worker.children.guardian_pipe import GuardianPipe
from longshore.worker.children.rpc_server import SharedTools
from longshore.worker.children.wire import Setup
from longshore.worker.kit.config import KitConfig

_START_SECONDS = 60.0


class ChildStartError(Exception):
    """No child process can be started: trouble of the worker, and no failure of a job."""


class ChildPool:
    """The child processes of one worker. Each attempt takes one, so there are never more than attempts under way."""

    def __init__(
        self, handler_file: Path, mark: str, *, label: str, level: str, kit: KitConfig, shared: SharedTools
    ) -> None:
        """`mark` identifies all processes that the children start, `label` is the worker's. `kit` configures the tools
        of the children; `shared` are the tools that they share with the worker."""
        self._handler_file = handler_file.resolve()
        # The file may be saved, half finished, at any time; all children of a worker run what the worker has loaded.
        self._content = loaded_content(handler_file)
        self._label = label
        self._level = level
        self._kit = kit
        self._shared = shared
        self.mark = mark
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()
        self._any_started = False
        self.guardian = GuardianPipe(mark)

    def change(self, kit: KitConfig) -> None:
        """Give children these tools from now on. A child with other tools ends with its present job."""
        if kit != self._kit:
            self._kit = kit
            for child in self._all:
                child.outdated = True

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that are alive."""
        return [child.pid for child in self._all]

    async def take(self) -> ChildProcess:
        """Return a child that waits for a job. Give it back with `put`, or `end` it.

        Raises `ChildStartError` if none can be started.
        """
        while self._idle:
            child = self._idle.pop()
            if child.usable:
                return child
            await self.end(child)
        self._any_started = True
        mark = f"{self.mark}/{secrets.token_hex(4)}"
        # The worker writes the records; a handler need not know the password of their database.
        setup = Setup(msgspec.structs.replace(self._kit, records_database=None), self._content, self._label)
        try:
            child = await ChildProcess.start(self._handler_file, self._level, mark, setup, self._shared)
        except OSError as error:
            raise ChildStartError(str(error)) from error
        self._all.add(child)
        self.guardian.say(f"+ {child.pid}")
        try:
            await child.ready(_START_SECONDS)
        except BaseException as error:
            await self.end(child)
            if isinstance(error, CrashedError):
                raise ChildStartError(str(error)) from error
            raise
        return child

    def put(self, child: ChildProcess) -> None:
        """Take back a child that has done its job and may do another."""
        self._idle.append(child)

    async def end(self, child: ChildProcess) -> None:
        """Kill the child and everything it started. When this returns, none of it runs."""
        # Shielded: if the caller is cancelled halfway, the child must still die.
        await asyncio.shield(asyncio.ensure_future(self._end(child)))

    async def _end(self, child: ChildProcess) -> None:
        await child.kill()
        if child in self._all:
            self._all.discard(child)
            self.guardian.say(f"- {child.pid}")

    async def close(self) -> None:
        """Kill all children, and everything they started."""
        self._idle.clear()
        children, self._all = self._all, set()
        if self._any_started:
            await asyncio.to_thread(end_tree, [child.pid for child in children], self.mark)
            for child in children:
                await child.clean_up()
        await asyncio.to_thread(self.guardian.close)

    def kill_now(self) -> None:
        """Kill all children, from any thread, when the event loop cannot."""
        end_tree(self.pids, self.mark)
