"""The program: which screen is on, and when the queue is asked."""

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
from longshore.top.figures import FiguresReader
from longshore.top.screens.dashboard import Dashboard
from longshore.top.screens.dialogs import Help
from longshore.top.screens.view import View
from longshore.ui.words import printable

EVERY, LONGEST = 1.0, 15.0
"""Seconds between two looks: at a queue that answers at once, and at one that takes its time."""
_SHARE = 10
"""Looking takes this part of the time at most, so that a watcher is no burden to those who work."""


class Top(App[None]):
    """Looks at a queue until somebody leaves. Nothing is changed but what a person asks for and confirms."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", "quit", show=False, priority=True)]

    def __init__(self, queue: Queue, clock: Clock, *, where: str, run: str | None = None, folder: Path) -> None:
        """`where` is the queue's name for people; `folder` the one in which workers of this machine keep their logs."""
        super().__init__()
        self.queue = queue
        self.clock = clock
        self.folder = folder
        self.fault: BaseException | None = None
        """What nobody expected and ended the program."""
        self.looks = 0
        """How many looks there were, good or bad."""
        self._where = where
        self._run = run
        self._hurry = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def deeper(self) -> bool:
        """Whether there is a screen below the one that is on."""
        return len(self.screen_stack) > 1

    def get_default_screen(self) -> Dashboard:
        """The first screen."""
        return self._dashboard(self._run)

    def on_mount(self) -> None:
        """Begin to look."""
        self.in_background(self._keep_looking())

    def on_unmount(self) -> None:
        """Leave nothing under way."""
        for task in self._tasks:
            task.cancel()

    def show(self, view: View) -> None:
        """Put a screen on top."""
        self.push_screen(view)

    def show_run(self, run: str) -> None:
        """Look at one run."""
        self.show(self._dashboard(run))

    def action_help(self) -> None:
        """Which keys there are."""
        self.push_screen(Help())

    def hurry(self) -> None:
        """Look now."""
        self._hurry.set()

    def said(self, entry: dict[str, Any]) -> None:
        """Show what a part of the program had to say to its log."""
        message = printable(str(entry.get("message", "")))
        self.call_later(self.notify, message, severity="warning", markup=False)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside the screen. What it raises ends the program, and is raised where that was started."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fault = error
            self.exit(return_code=1)

    def _dashboard(self, run: str | None) -> Dashboard:
        return Dashboard(FiguresReader(self.queue, run, self.clock), run, self._where)

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
        # What the framework would print shows the values of variables, passwords among them.
        self.fault = sys.exc_info()[1]
        self._close_messages_no_wait()
