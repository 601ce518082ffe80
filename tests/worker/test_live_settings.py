"""Settings that change while a worker runs: what is read again, and what is said of it (B8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from longshore.clock import ManualClock
from longshore.errors import SettingsError
from longshore.settings import SecondsRange, Settings, resolve
from longshore.worker.lifecycle.live_settings import LiveSettings


class Watched:
    """Live settings of a folder, on a clock that a test moves."""

    def __init__(self, folder: Path, said: list[Any], **cli: object) -> None:
        self.folder = folder
        self.applied: list[Settings] = []
        self.live = LiveSettings(lambda: resolve(cli, environ={}, folder=folder), folder)
        self._clock = ManualClock()
        self._said = said
        self._task = asyncio.create_task(self.live.watch(self._clock, self.applied.append))

    def write(self, text: str, name: str = ".env") -> None:
        (self.folder / name).write_text(text)

    async def seconds(self, count: int) -> None:
        for _ in range(count):
            await self._turns()
            self._clock.advance(1.0)
        await self._turns()

    async def ask(self) -> None:
        self.live.ask()
        await self._turns()

    @property
    def said(self) -> list[str]:
        return [entry["event"] for entry in self._said]

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @staticmethod
    async def _turns() -> None:
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
async def watch(tmp_path: Path) -> AsyncIterator[Callable[..., Watched]]:
    made: list[Watched] = []
    with capture_logs() as said:

        def start(text: str = "", **cli: object) -> Watched:
            (tmp_path / ".env").write_text(text)
            made.append(Watched(tmp_path, said, **cli))
            return made[-1]

        yield start
        for one in made:
            await one.end()


DELAYS = "MIN_DELAY_SECONDS=8\nMAX_DELAY_SECONDS=20\n"


async def test_a_change_of_the_dotenv_file_takes_effect_and_is_said(watch: Callable[..., Watched]) -> None:
    watched = watch(DELAYS)
    watched.write("MIN_DELAY_SECONDS=1\nMAX_DELAY_SECONDS=5\n")
    await watched.seconds(2)
    assert [settings.delay for settings in watched.applied] == [SecondsRange(1, 5)]
    assert watched.said == ["Settings changed: min_delay_seconds 8 → 1 (.env), max_delay_seconds 20 → 5 (.env)"]


async def test_files_that_do_not_change_are_not_spoken_of(watch: Callable[..., Watched]) -> None:
    watched = watch(DELAYS)
    await watched.seconds(5)
    watched.write(DELAYS + "# a remark\n")
    await watched.seconds(5)
    assert (watched.applied, watched.said) == ([], [])


async def test_the_toml_file_is_watched_too_from_when_there_is_one(watch: Callable[..., Watched]) -> None:
    watched = watch()
    watched.write("[longshore]\nconcurrency = 2\n", "longshore.toml")
    await watched.seconds(2)
    assert watched.live.settings.concurrency == 2
    (watched.folder / "longshore.toml").unlink()
    await watched.seconds(2)
    assert watched.said == [
        "Settings changed: concurrency 8 → 2 (longshore.toml)",
        "Settings changed: concurrency 2 → 8 (default)",
    ]


async def test_a_file_that_is_being_written_is_left_until_it_is_finished(watch: Callable[..., Watched]) -> None:
    watched = watch(DELAYS)
    watched.write("")
    await watched.seconds(1)
    watched.write(DELAYS + "LONGSHORE_CONCURRENCY=3\n")
    await watched.seconds(2)
    assert watched.said == ["Settings changed: concurrency 8 → 3 (.env)"]


async def test_a_file_that_ends_in_the_middle_of_a_line_is_not_finished_which_is_said_once(
    watch: Callable[..., Watched],
) -> None:
    watched = watch(DELAYS)
    watched.write("# pauses\n\nMAX_DELAY_SECONDS=9\n\nLONGSHORE_CONC")
    await watched.seconds(4)
    watched.write("# pauses\n\nMAX_DELAY_SECONDS=9\n\nLONGSHORE_CONCURRENCY")
    await watched.seconds(4)
    (line,) = watched.said
    assert line.startswith("Settings not changed, the old ones stay: ")
    assert "line 5, is not an assignment" in line
    assert watched.applied == []
    watched.write("# pauses\n\nMAX_DELAY_SECONDS=9\n\nLONGSHORE_CONCURRENCY=3\n")
    await watched.seconds(2)
    assert watched.said[1:] == [
        "Settings changed: concurrency 8 → 3 (.env), min_delay_seconds 8 → 0 (default), max_delay_seconds 20 → 9 (.env)"
    ]


async def test_a_file_that_keeps_changing_is_read_after_a_few_seconds_all_the_same(
    watch: Callable[..., Watched],
) -> None:
    watched = watch(DELAYS)
    for number in range(1, 7):
        watched.write(f"{DELAYS}LONGSHORE_CONCURRENCY={number}{' ' * number}\n")
        await watched.seconds(1)
    assert [settings.concurrency for settings in watched.applied] == [5]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("MAX_DELAY_SECONDS=soon\n", "cannot be 'soon'"),
        ("MIN_DELAY_SECONDS=30\nMAX_DELAY_SECONDS=20\n", "shortest pause cannot exceed the longest"),
        ("ENVIRONMENT=moon\n", "no profile 'moon'"),
    ],
)
async def test_a_bad_value_is_refused_in_one_line_and_the_old_ones_stay(
    watch: Callable[..., Watched], text: str, why: str
) -> None:
    watched = watch(DELAYS)
    watched.write(f"LONGSHORE_CONCURRENCY=2\n{text}")
    await watched.seconds(10)
    (line,) = watched.said
    assert line.startswith("Settings not changed, the old ones stay: ")
    assert why in line
    assert watched.applied == []
    assert (watched.live.settings.delay, watched.live.settings.concurrency) == (SecondsRange(8, 20), 8)
    watched.write("MIN_DELAY_SECONDS=8\nMAX_DELAY_SECONDS=9\n")
    await watched.seconds(2)
    assert watched.live.settings.delay == SecondsRange(8, 9)


async def test_what_the_command_line_said_stays_on_top(watch: Callable[..., Watched]) -> None:
    watched = watch(DELAYS, concurrency="3")
    watched.write(DELAYS + "LONGSHORE_CONCURRENCY=5\n")
    await watched.seconds(3)
    assert (watched.applied, watched.said) == ([], [])


async def test_a_setting_that_is_not_live_needs_a_restart_and_says_so_once(watch: Callable[..., Watched]) -> None:
    watched = watch()
    watched.write("LONGSHORE_LEASE_SECONDS=60\n")
    await watched.seconds(3)
    watched.write("LONGSHORE_LEASE_SECONDS=60\nLONGSHORE_CONCURRENCY=2\n")
    await watched.seconds(3)
    watched.write("LONGSHORE_CONCURRENCY=2\n")
    await watched.seconds(3)
    assert watched.said == [
        "Needs a restart: lease_seconds 300 → 60 (.env)",
        "Settings changed: concurrency 8 → 2 (.env)",
    ]
    assert watched.live.settings.lease_seconds == 300
    assert all(settings.lease_seconds == 300 for settings in watched.applied)


async def test_who_asks_is_answered_at_once_and_told_when_nothing_has_changed(watch: Callable[..., Watched]) -> None:
    watched = watch(DELAYS)
    watched.write("MAX_DELAY_SECONDS=5\n")
    await watched.ask()
    assert watched.live.settings.delay == SecondsRange(0, 5)
    await watched.ask()
    await watched.seconds(3)
    assert watched.said == [
        "Settings changed: min_delay_seconds 8 → 0 (default), max_delay_seconds 20 → 5 (.env)",
        "Settings read again: nothing has changed",
    ]


async def test_a_change_while_the_worker_starts_is_not_missed(watch: Callable[..., Watched]) -> None:
    """It comes after the settings were read, and before the first look at the files."""
    watched = watch(DELAYS)
    watched.write("")
    await watched.seconds(2)
    assert watched.live.settings.delay == SecondsRange(0, 0)


async def test_a_password_is_not_shown_when_it_changes(watch: Callable[..., Watched]) -> None:
    watched = watch("LONGSHORE_QUEUE=postgresql://me:hunter2@db/x\n")
    watched.write("LONGSHORE_QUEUE=postgresql://me:hunter3@db/y\n")
    await watched.seconds(2)
    (line,) = watched.said
    assert "hunter" not in line
    assert "db/y" in line


def test_settings_that_cannot_be_used_at_the_start_are_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LONGSHORE_CONCURRENCY=none\n")
    with pytest.raises(SettingsError):
        LiveSettings(lambda: resolve(environ={}, folder=tmp_path), tmp_path)
