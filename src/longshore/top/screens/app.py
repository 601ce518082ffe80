"""The application: it manages the screens and decides when the queue is read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from longshore.clock import Clock
from longshore.errors import LongshoreError, NotFoundError
from longshore.queue import Queue
from longshore.system.first_of import first_of
from longshore.system.printable import printable
from longshore.top.figures import FiguresReader
from longshore.top.screens.dashboard import Dashboard
from longshore.top.screens.dialogs import Help
from longshore.top.screens.view import View

EVERY, LONGEST = 1.0, 15.0
"""Seconds between two readings: of a queue that answers at once, and of a slow one."""
_SHARE = 10
"""Readings take at most one part in `_SHARE` of the time, so that the dashboard does not slow down the workers."""


class Top(App[None]):
    """Shows a queue until the user quits. It changes only what the user requests and confirms."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", "quit", show=False, priority=True)]

    def __init__(
        self, queue: Queue, clock: Clock, *, where: str, run: str | None = None, folder: Path, flag: str = ""
    ) -> None:
        """Take `where`, the queue's name for people, and `folder`, with the logs of this machine's workers.

        `flag` is the option with which a command finds the queue.
        """
        super().__init__()
        self.queue = queue
        self.clock = clock
        self.folder = folder
        self.fault: BaseException | None = None
        """The unexpected error that ended the program."""
        self.looks = 0
        """The number of readings, successful or not."""
        self._where = where
        self._flag = flag
        self._run = run
        self._hurry = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def deeper(self) -> bool:
        """Whether there is a screen below the current one."""
        return len(self.screen_stack) > 1

    def get_default_screen(self) -> Dashboard:
        """Return the first screen."""
        return self._dashboard(self._run)

    def on_mount(self) -> None:
        """Start to read the queue."""
        self.in_background(self._keep_looking())

    def on_unmount(self) -> None:
        """Cancel all background tasks."""
        for task in self._tasks:
            task.cancel()

    def show(self, view: View) -> None:
        """Show a screen on top of the current one."""
        self.push_screen(view)

    def show_run(self, run: str) -> None:
        """Show the dashboard of one run."""
        self.show(self._dashboard(run))

    def action_help(self) -> None:
        """Show the list of keys."""
        self.push_screen(Help())

    def hurry(self) -> None:
        """Read the queue now."""
        self._hurry.set()

    def notify_of(self, entry: dict[str, Any]) -> None:
        """Show a log entry of this process as a notification."""
        message = printable(str(entry.get("message", "")))
        self.call_later(self.notify, message, severity="warning", markup=False)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background. If it raises, the program ends and `fault` has the error."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fault = error
            self.exit(return_code=1)

    def _dashboard(self, run: str | None) -> Dashboard:
        return Dashboard(FiguresReader(self.queue, run, self.clock), run, self._where, self._flag)

    async def _keep_looking(self) -> None:
        while True:
            self._hurry.clear()
            began = self.clock.monotonic()
            await self._look()
            pause = max(EVERY, min(_SHARE * (self.clock.monotonic() - began), LONGEST))
            await first_of(self.clock.sleep(pause), self._hurry.wait())

    async def _look(self) -> None:
        view = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, View)), None)
        if view is None or not view.is_mounted:
            return
        try:
            await view.look()
        except NotFoundError as error:
            trouble = str(error)
        except LongshoreError as error:
            trouble = f"The queue does not answer; trying again. {error}"
        else:
            trouble = ""
        self.looks += 1
        if view.is_attached:
            view.trouble(trouble)

    def _fatal_error(self) -> None:
        # The framework's own report would print the values of variables, including passwords.
        self.fault = sys.exc_info()[1]
        self._close_messages_no_wait()
