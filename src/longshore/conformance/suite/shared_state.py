"""Shared state: every reader sees the last write, and a write based on an older version is refused."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import pytest_asyncio

from longshore.conformance.scene import Scene, now
from longshore.conformance.suite.values import ODD
from longshore.errors import UsageError
from longshore.extensions.shared_state import ABSENT, SharedState, StateEntry
from longshore.queue import Queue

SHELF = "pace"
VALUES: list[Any] = [0, "", [], {}, {"rate": 0.5, "why": "☕", "of": [1, None, {"a": True}]}, "Ω\n" * 1500]


async def write(queue: SharedState, name: str, value: Any, version: str = ABSENT, shelf: str = SHELF) -> str | None:
    (new,) = await queue.note(shelf, [StateEntry(name, version, value)])
    return new


class NotingTests(Scene):
    @pytest_asyncio.fixture
    async def book(self, queue: Queue) -> SharedState:
        """The queue under test. The tests are skipped for a medium without shared state."""
        if not queue.traits.keeps_notes:
            pytest.skip("its traits say that it keeps no notes")
        return cast("SharedState", queue)

    @pytest_asyncio.fixture
    async def second(self, book: SharedState, other: Queue) -> SharedState:
        """A second opening of the same queue."""
        del book
        return cast("SharedState", other)

    async def test_a_new_shelf_is_empty(self, book: SharedState) -> None:
        shelf = await book.notes(SHELF)
        assert shelf.notes == ()
        assert shelf.get("x.test") == StateEntry("x.test", ABSENT, None)

    @pytest.mark.parametrize("value", VALUES, ids=str)
    async def test_what_was_written_is_read_by_everybody(
        self, book: SharedState, second: SharedState, value: Any
    ) -> None:
        version = await write(book, "x.test", value)
        assert version
        for reader in (book, second):
            assert (await reader.notes(SHELF)).notes == (StateEntry("x.test", version, value),)

    async def test_a_note_is_replaced_by_whoever_read_it(self, book: SharedState, second: SharedState) -> None:
        first = await write(book, "x.test", 1)
        assert first
        newer = await write(second, "x.test", 2, first)
        assert newer not in {None, ABSENT, first}
        assert (await book.notes(SHELF)).get("x.test").value == 2

    async def test_whoever_read_something_older_writes_nothing(self, book: SharedState, second: SharedState) -> None:
        first = await write(book, "x.test", 1)
        assert first
        await write(second, "x.test", 2, first)
        for stale in (first, ABSENT, "no such version"):
            assert await write(book, "x.test", 3, stale) is None
        assert await write(book, "y.test", 3, "no such version") is None
        assert [note.value for note in (await second.notes(SHELF)).notes] == [2]

    async def test_of_two_who_write_at_once_one_is_faster(self, book: SharedState, second: SharedState) -> None:
        answers = await asyncio.gather(*(write(queue, "x.test", n) for n in range(4) for queue in (book, second)))
        assert len([version for version in answers if version is not None]) == 1

    async def test_who_reads_again_and_again_counts_right(self, book: SharedState, second: SharedState) -> None:
        async def count(queue: SharedState) -> None:
            done = 0
            while done < 5:
                note = (await queue.notes(SHELF, frozenset({"n"}))).get("n")
                done += await write(queue, "n", (note.value or 0) + 1, note.version) is not None

        await asyncio.gather(count(book), count(second), count(book))
        assert (await book.notes(SHELF)).get("n").value == 15

    async def test_a_note_that_is_taken_away_is_gone(self, book: SharedState, second: SharedState) -> None:
        first = await write(book, "x.test", 1)
        assert first
        assert await write(book, "x.test", None, "no such version") is None
        assert await write(book, "x.test", None, first) == ABSENT
        assert (await second.notes(SHELF)).notes == ()

    async def test_a_version_is_never_given_twice(self, book: SharedState) -> None:
        seen = set()
        for _ in range(3):
            version = await write(book, "x.test", 1)
            assert version
            assert version not in seen
            seen.add(version)
            await write(book, "x.test", None, version)
        assert await write(book, "x.test", 1, seen.pop()) is None

    async def test_taking_away_what_is_not_there_is_no_harm(self, book: SharedState) -> None:
        assert await write(book, "x.test", None) == ABSENT

    async def test_notes_are_found_by_name_and_come_in_its_order(self, book: SharedState) -> None:
        for name in ("b", "c", "a"):
            await write(book, name, name)
        assert [note.name for note in (await book.notes(SHELF)).notes] == ["a", "b", "c"]
        assert [note.name for note in (await book.notes(SHELF, frozenset({"c", "a", "d"}))).notes] == ["a", "c"]
        assert (await book.notes(SHELF, frozenset())).notes == ()

    async def test_shelves_know_nothing_of_each_other(self, book: SharedState) -> None:
        await write(book, "x.test", 1, shelf="pace")
        await write(book, "x.test", 2, shelf="schedules")
        assert [(await book.notes(shelf)).get("x.test").value for shelf in ("pace", "schedules", "none")] == [
            1,
            2,
            None,
        ]

    async def test_each_of_several_notes_is_written_or_not_on_its_own(self, book: SharedState) -> None:
        first = await write(book, "a", 1)
        answers = await book.note(
            SHELF, [StateEntry("a", "no such version", 9), StateEntry("b", ABSENT, 2), StateEntry("c", ABSENT, 3)]
        )
        assert [answer is not None for answer in answers] == [False, True, True]
        notes = (await book.notes(SHELF)).notes
        assert [(note.name, note.value) for note in notes] == [("a", 1), ("b", 2), ("c", 3)]
        assert [note.version for note in notes] == [first, *answers[1:]]
        assert await book.note(SHELF, []) == []

    async def test_a_shelf_tells_the_time_by_which_jobs_are_delayed(self, book: SharedState) -> None:
        earlier = await now(book)
        assert abs((await book.notes(SHELF)).now - earlier) < 30

    @pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
    async def test_any_text_is_a_name(self, book: SharedState, text: str) -> None:
        version = await write(book, text, {text: text}, shelf=text)
        assert version
        assert (await book.notes(text, frozenset({text}))).notes == (StateEntry(text, version, {text: text}),)

    @pytest.mark.parametrize("value", [object(), "\ud800"], ids=["object", "surrogate"])
    async def test_what_cannot_be_stored_is_refused(self, book: SharedState, value: Any) -> None:
        with pytest.raises(UsageError):
            await book.note(SHELF, [StateEntry("a", ABSENT, 1), StateEntry("b", ABSENT, value)])
        assert (await book.notes(SHELF)).notes == ()
