"""The program in a terminal that nobody sees: what it shows, and what its keys do (F7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.top.top_scene import Scene
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, Static

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.extensions.presence import FleetInfo, WorkerInfo
from longshore.job import State
from longshore.media.memory import MemoryQueue
from longshore.queue import Count, Selection, totals
from longshore.top.screens.app import Top
from longshore.top.screens.dashboard import Dashboard
from longshore.top.screens.dialogs import Help, Question
from longshore.top.screens.job import JobView
from longshore.top.screens.jobs import JobsView
from longshore.top.screens.pane import Pane


class Seen:
    """The program, a person at its keys, and the clock."""

    def __init__(self, app: Top, pilot: Pilot[None], clock: ManualClock) -> None:
        self.app = app
        self.pilot = pilot
        self.clock = clock

    async def press(self, *keys: str) -> None:
        """Press keys, and let the program do what follows from them."""
        await self.pilot.press(*keys)
        await self.settled()

    async def settled(self) -> None:
        """Let everything that is under way happen."""
        for _ in range(5):
            await self.pilot.pause()

    async def look(self, seconds: float = 20.0) -> None:
        """Let time pass until the program has looked again."""
        before = self.app.looks
        while self.app.looks == before:
            self.clock.advance(seconds)
            await self.pilot.pause()
        await self.settled()

    async def shows(self, text: str) -> bool:
        """Whether the text is on the screen, once what is under way has had its time: a notice slides in."""
        for _ in range(100):
            if text in self.text:
                return True
            await self.pilot.pause()
        return text in self.text

    def lines(self) -> list[str]:
        """The screen, line by line."""
        screen = self.app.screen
        strips = screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    def on(self, screen: type[Screen[Any]]) -> bool:
        """Whether a screen of this kind is on."""
        return isinstance(self.app.screen, screen)

    @property
    def text(self) -> str:
        return "\n".join(self.lines())

    def rows(self, pane: str) -> list[list[str]]:
        """The lines of a table."""
        table = self.app.screen.query_one(f"#{pane}", Pane)
        return [[cell.plain.strip() for cell in table.get_row_at(row)] for row in range(table.row_count)]


Watching = Callable[..., AbstractAsyncContextManager[Seen]]


@pytest.fixture
def watching(scene: Scene, clock: ManualClock, tmp_path: Path) -> Watching:
    """Open the program on the scene's queue."""

    @asynccontextmanager
    async def watch(run: str | None = None, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Seen]:
        app = Top(scene.queue, clock, where="memory://", run=run, folder=tmp_path)
        async with app.run_test(size=size, notifications=True) as pilot:
            seen = Seen(app, pilot, clock)
            await seen.settled()
            assert app.looks
            yield seen

    return watch


@pytest.fixture
async def busy(scene: Scene) -> Scene:
    """A run in the middle of its work."""
    await scene.submit(20)
    await scene.submit(6, kind="list", host="b.org", partition="CA")
    await scene.fail(3)
    await scene.complete(5)
    await scene.claim(2)
    await scene.register("vm-7", WorkerInfo(fleet=FleetInfo(name="vm", number=7), run="r"))
    return scene


async def count(scene: Scene) -> Count:
    return totals(await scene.queue.stats())


@pytest.mark.parametrize("size", [(100, 30), (80, 24), (200, 60)])
async def test_a_run_is_shown_whole_on_screens_of_any_size(
    busy: Scene, watching: Watching, size: tuple[int, int]
) -> None:
    async with watching("r", size) as seen:
        assert len(seen.lines()) == size[1]
        for word in ("run r", "8/26", "16 pending", "2 claimed", "3 failed", "workers 2", "hosts 2", "q quit"):
            assert word in seen.text, word
        assert [row[:2] for row in seen.rows("lanes")] == [["list", "CA"], ["page", ""]]
        assert seen.rows("failures")[0][0] == "3"
        assert {row[0] for row in seen.rows("hosts")} == {"a.org", "b.org"}
        assert [row[0] for row in seen.rows("workers")] == ["vm-7", "w-1"]


async def test_a_screen_that_is_resized_is_laid_out_anew(busy: Scene, watching: Watching) -> None:
    async with watching("r", (100, 30)) as seen:
        await seen.pilot.resize_terminal(80, 24)
        await seen.settled()
        assert max(map(len, seen.lines())) <= 80
        assert "q quit" in seen.lines()[-1]
        await seen.pilot.resize_terminal(120, 40)
        await seen.settled()
        assert "throughput" in seen.text


async def test_the_figures_move_as_the_work_goes_on(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await busy.complete(4)
        await seen.look(1.0)
        assert "12/26" in seen.text
        assert "left" in seen.lines()[1]


async def test_the_queue_is_asked_once_a_second_at_most_and_less_often_where_it_is_slow(
    scene: Scene, clock: ManualClock, tmp_path: Path
) -> None:
    class Slow(MemoryQueue):
        asked = 0

        async def stats(self, run: str | None = None) -> list[Count]:
            self.asked += 1
            clock.advance(0.5)
            return await super().stats(run)

    app = Top(slow := Slow(clock), clock, where="slow", folder=tmp_path)
    async with app.run_test() as pilot:
        await pilot.pause()
        for _ in range(10):
            clock.advance(0.4)
            await pilot.pause()
        assert slow.asked == 1
        clock.advance(1.5)
        await pilot.pause()
        assert slow.asked == 2


@pytest.mark.ledger("F7")
async def test_enter_goes_from_the_runs_to_one_run_to_a_failure_to_a_job_and_escape_back(
    busy: Scene, watching: Watching, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker_0.log").write_text("06:00:00 Visiting job_id=1 kind=page worker_id=w-1\n")
    async with watching() as seen:
        assert "all runs" in seen.text
        await seen.press("enter")
        assert "run r" in seen.text
        await seen.press("tab", "tab", "enter")
        assert seen.on(JobsView)
        assert [row[2] for row in seen.rows("jobs")] == ["failed", "failed", "failed"]
        await seen.press("enter")
        assert seen.on(JobView)
        while "Visiting" not in seen.text:
            await seen.pilot.pause()
        for word in (
            "attempts    1 of 4",
            "Page https://a.org/1 has no title",
            "attempts that failed",
            "Visiting job_id=1",
        ):
            assert word in seen.text, word
        for _ in range(3):
            await seen.press("escape")
        assert "all runs" in seen.text
        await seen.press("escape")
        assert seen.on(Dashboard)


async def test_the_jobs_of_a_worker_a_host_and_a_run_can_be_looked_at(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("tab", "down", "enter")
        assert "jobs that w-1 holds" in seen.text
        assert [row[2] for row in seen.rows("jobs")] == ["claimed", "claimed"]
        await seen.press("escape", "shift+tab", "shift+tab", "enter")
        assert "unfinished jobs for a.org" in seen.text
        await seen.press("escape", "j")
        assert len(seen.rows("jobs")) == 26


async def test_r_retries_the_failures_of_a_kind_after_a_question(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("tab", "tab", "r")
        assert seen.on(Question)
        assert "Retry 3 jobs?" in seen.text
        assert "Page * has no title" in seen.text
        await seen.press("n")
        assert (await count(busy)).failed == 3
        await seen.press("r", "y")
        assert (await count(busy)).failed == 0
        assert await seen.shows("3 jobs are pending again.")
        await seen.look()
        assert "failed" not in seen.lines()[2]


@pytest.mark.parametrize("key", ["n", "escape", "enter", "q"])
async def test_everything_but_y_is_no(busy: Scene, watching: Watching, key: str) -> None:
    async with watching() as seen:
        await seen.press("c")
        assert "Cancel 18 jobs?" in seen.text
        await seen.press(key)
        assert not seen.on(Question)
        assert (await count(busy)).cancelled == 0


async def test_c_cancels_the_unfinished_jobs_of_a_kind_and_partition(busy: Scene, watching: Watching) -> None:
    meant, other = await busy.queue.stats("r")
    async with watching("r") as seen:
        await seen.press("c", "y")
    cancelled, untouched = await busy.queue.stats("r")
    assert (cancelled.kind, cancelled.cancelled, cancelled.remaining) == ("list", meant.remaining, 0)
    assert untouched == other


async def test_one_job_is_cancelled_and_retried_where_it_is_looked_at(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("j", "slash", *"pending", "enter", "enter")
        assert seen.on(JobView)
        await seen.press("c", "y")
        [job] = await busy.queue.jobs(Selection(states=frozenset({State.CANCELLED})))
        assert f"job {job.id}" in seen.text
        await seen.press("r", "y")
        assert (await count(busy)).cancelled == 0


async def test_where_nothing_can_be_changed_it_is_said(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("tab", "r")
        assert "nothing to retry here" in seen.text
    await busy.queue.retry(Selection(run="r"))
    async with watching() as seen:
        await seen.press("r")
        assert "Nothing to retry: run r: nothing is failed." in seen.text


async def test_a_filter_narrows_the_tables_and_escape_drops_it(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("slash", *"b.org", "enter")
        assert [row[0] for row in seen.rows("hosts")] == ["b.org"]
        assert seen.rows("failures") == []
        assert "nothing matches the filter" in seen.text
        await seen.look()
        assert [row[0] for row in seen.rows("hosts")] == ["b.org"]
        await seen.press("escape")
        assert len(seen.rows("hosts")) == 2
        assert not seen.app.screen.query_one("#filter", Input).display


async def test_keys_are_letters_while_a_filter_is_written(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("slash", *"qrcj")
        assert seen.app.screen.query_one("#filter", Input).value == "qrcj"
        assert seen.app.is_running


async def test_the_cursor_stays_on_its_line_while_others_come_and_go(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("tab", "down")
        workers = seen.app.screen.query_one("#workers", Pane)
        assert workers.chosen == "w-1"
        await busy.register("a-new-one", WorkerInfo(run="r"))
        await seen.look(1.0)
        assert [row[0] for row in seen.rows("workers")] == ["a-new-one", "vm-7", "w-1"]
        assert workers.chosen == "w-1"


async def test_a_queue_out_of_reach_is_shown_and_looked_for_again(
    busy: Scene, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> list[Count]:
        raise QueueUnavailableError("connection refused")

    async with watching() as seen:
        monkeypatch.setattr(busy.queue, "stats", away)
        await seen.look()
        assert "The queue does not answer; trying again. connection refused" in seen.text
        assert "8/26" in seen.text
        monkeypatch.undo()
        await seen.look()
        assert "does not answer" not in seen.text


async def test_a_queue_out_of_reach_while_something_is_changed_is_said(
    busy: Scene, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> int:
        raise QueueUnavailableError("connection refused")

    async with watching() as seen:
        monkeypatch.setattr(busy.queue, "cancel", away)
        await seen.press("c", "y")
        assert "connection refused" in seen.text
        assert seen.app.is_running


async def test_a_fault_nobody_expected_ends_the_program_and_is_kept(
    busy: Scene, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> list[Count]:
        raise RuntimeError("a fault")

    monkeypatch.setattr(busy.queue, "stats", broken)
    app = Top(busy.queue, clock, where="memory://", folder=tmp_path)
    async with app.run_test() as pilot:
        await pilot.pause()
    assert isinstance(app.fault, RuntimeError)


async def test_an_empty_queue_says_what_to_do(watching: Watching) -> None:
    async with watching() as seen:
        assert "There are no jobs yet. `longshore submit` puts some in." in seen.text


async def test_names_of_others_cannot_give_orders_to_the_terminal_or_the_screen(
    scene: Scene, watching: Watching
) -> None:
    await scene.submit(2, kind="[b]\x1b[1mk", partition="[/]")
    await scene.fail(1, "[bold]\x1b]0;title\x07 broke {}")
    await scene.register("[link]\x1b[2J", WorkerInfo(machine="[/nothing]"))
    async with watching("r") as seen:
        assert "[b][1mk" in seen.text
        assert "\x1b" not in seen.text
        await seen.press("r")
        assert "[/]" in seen.text
        await seen.press("y", "tab", "tab", "enter", "enter")
        assert "\x1b" not in seen.text


async def test_what_is_too_long_for_a_line_goes_on_under_where_it_began(scene: Scene, watching: Watching) -> None:
    await scene.submit(1)
    await scene.fail(1, "no title " * 20)
    async with watching("r", (80, 60)) as seen:
        await seen.press("tab", "tab", "enter")
        assert seen.lines()[0].endswith("…  1"), "how many there are is said, however long the name"
        await seen.press("enter")
        folded = [line for line in seen.lines()[1:] if "no title" in line]
        assert len(folded) > 4
        assert all(line.startswith("   ") for line in folded)


async def test_help_explains_the_keys(busy: Scene, watching: Watching) -> None:
    async with watching("r", (80, 24)) as seen:
        await seen.press("question_mark")
        assert seen.on(Help)
        assert "only lines that contain a text" in seen.text
        inside = [line.partition("│")[2] for line in seen.lines()]
        assert {line.split()[0] for line in inside if line[2:3].strip()} <= {"Keys", "Words", "escape"}, seen.text
        await seen.press("escape")
        assert seen.on(Dashboard)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_leaving_leaves_the_queue_as_it_is(busy: Scene, watching: Watching, key: str) -> None:
    before = await count(busy)
    async with watching() as seen:
        await seen.pilot.press(key)
        await seen.settled()
        assert seen.app._exit
    assert await count(busy) == before


async def test_a_job_that_goes_away_while_it_is_looked_at_is_said_to_be_gone(busy: Scene, watching: Watching) -> None:
    async with watching("r") as seen:
        await seen.press("tab", "tab", "enter", "enter")
        assert seen.on(JobView)
        await busy.queue.prune(Selection(run="r"))
        await seen.look()
        assert "There is no job '1' any more" in seen.app.screen.query_one("#trouble", Static).render().plain  # type: ignore[union-attr]
