"""Shared state: every reader sees the last write, and a write based on an older version is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from longshore.conformance.scene import Scene, now, offered
from longshore.conformance.suite.values import ODD
from longshore.errors import UsageError
from longshore.extensions.published_code import (
    PARTS,
    PINS,
    PUBLISHED,
    pin_run,
    read_content,
    read_versions,
    remove_version,
    store_version,
    version_for,
)
from longshore.extensions.shared_state import ABSENT, SharedState, StateEntry
from longshore.queue import Queue

NAMESPACE = "pace"
VALUES: list[Any] = [0, "", [], {}, {"rate": 0.5, "why": "☕", "of": [1, None, {"a": True}]}, "Ω\n" * 1500]


async def write(
    state: SharedState, name: str, value: Any, version: str = ABSENT, namespace: str = NAMESPACE
) -> str | None:
    (new,) = await state.swap_entries(namespace, [StateEntry(name, version, value)])
    return new


class NotingTests(Scene):
    @pytest_asyncio.fixture
    async def state(self, queue: Queue) -> SharedState:
        """The shared state of the queue under test. A medium without the trait is not asked for it."""
        return offered(queue, SharedState)

    @pytest_asyncio.fixture
    async def second(self, state: SharedState, other: Queue) -> SharedState:
        """Another opening of it."""
        del state
        return offered(other, SharedState)

    async def test_a_new_namespace_is_empty(self, state: SharedState) -> None:
        read = await state.read_entries(NAMESPACE)
        assert read.entries == ()
        assert read.get("x.test") == StateEntry("x.test", ABSENT, None)

    @pytest.mark.parametrize("value", VALUES, ids=str)
    async def test_a_written_entry_is_read_through_every_opening(
        self, state: SharedState, second: SharedState, value: Any
    ) -> None:
        version = await write(state, "x.test", value)
        assert version
        for reader in (state, second):
            assert (await reader.read_entries(NAMESPACE)).entries == (StateEntry("x.test", version, value),)

    async def test_an_entry_is_replaced_by_a_writer_that_read_it(self, state: SharedState, second: SharedState) -> None:
        first = await write(state, "x.test", 1)
        assert first
        newer = await write(second, "x.test", 2, first)
        assert newer not in {None, ABSENT, first}
        assert (await state.read_entries(NAMESPACE)).get("x.test").value == 2

    async def test_a_writer_that_read_an_older_version_writes_nothing(
        self, state: SharedState, second: SharedState
    ) -> None:
        first = await write(state, "x.test", 1)
        assert first
        await write(second, "x.test", 2, first)
        for stale in (first, ABSENT, "no such version"):
            assert await write(state, "x.test", 3, stale) is None
        assert await write(state, "y.test", 3, "no such version") is None
        assert [entry.value for entry in (await second.read_entries(NAMESPACE)).entries] == [2]

    async def test_of_two_writers_at_once_one_wins(self, state: SharedState, second: SharedState) -> None:
        answers = await asyncio.gather(*(write(each, "x.test", n) for n in range(4) for each in (state, second)))
        assert len([version for version in answers if version is not None]) == 1

    async def test_writers_that_read_again_and_retry_count_correctly(
        self, state: SharedState, second: SharedState
    ) -> None:
        async def count(state: SharedState) -> None:
            done = 0
            while done < 5:
                entry = (await state.read_entries(NAMESPACE, frozenset({"n"}))).get("n")
                done += await write(state, "n", (entry.value or 0) + 1, entry.version) is not None

        await asyncio.gather(count(state), count(second), count(state))
        assert (await state.read_entries(NAMESPACE)).get("n").value == 15

    async def test_a_removed_entry_is_gone(self, state: SharedState, second: SharedState) -> None:
        first = await write(state, "x.test", 1)
        assert first
        assert await write(state, "x.test", None, "no such version") is None
        assert await write(state, "x.test", None, first) == ABSENT
        assert (await second.read_entries(NAMESPACE)).entries == ()

    async def test_a_version_is_never_given_twice(self, state: SharedState) -> None:
        seen = set()
        for _ in range(3):
            version = await write(state, "x.test", 1)
            assert version
            assert version not in seen
            seen.add(version)
            await write(state, "x.test", None, version)
        assert await write(state, "x.test", 1, seen.pop()) is None

    async def test_removing_an_absent_entry_is_harmless(self, state: SharedState) -> None:
        assert await write(state, "x.test", None) == ABSENT

    async def test_entries_are_found_by_name_and_ordered_by_it(self, state: SharedState) -> None:
        for name in ("b", "c", "a"):
            await write(state, name, name)
        assert [entry.name for entry in (await state.read_entries(NAMESPACE)).entries] == ["a", "b", "c"]
        assert [entry.name for entry in (await state.read_entries(NAMESPACE, frozenset({"c", "a", "d"}))).entries] == [
            "a",
            "c",
        ]
        assert (await state.read_entries(NAMESPACE, frozenset())).entries == ()

    async def test_shelves_know_nothing_of_each_other(self, state: SharedState) -> None:
        await write(state, "x.test", 1, namespace="pace")
        await write(state, "x.test", 2, namespace="schedules")
        assert [(await state.read_entries(each)).get("x.test").value for each in ("pace", "schedules", "none")] == [
            1,
            2,
            None,
        ]

    async def test_each_of_several_entries_is_written_or_not_on_its_own(self, state: SharedState) -> None:
        first = await write(state, "a", 1)
        answers = await state.swap_entries(
            NAMESPACE, [StateEntry("a", "no such version", 9), StateEntry("b", ABSENT, 2), StateEntry("c", ABSENT, 3)]
        )
        assert [answer is not None for answer in answers] == [False, True, True]
        entries = (await state.read_entries(NAMESPACE)).entries
        assert [(entry.name, entry.value) for entry in entries] == [("a", 1), ("b", 2), ("c", 3)]
        assert [entry.version for entry in entries] == [first, *answers[1:]]
        assert await state.swap_entries(NAMESPACE, []) == []

    async def test_published_code_is_read_as_it_was_stored_and_nothing_is_left_of_what_was_removed(
        self, state: SharedState, second: SharedState
    ) -> None:
        contents = {"a" * 64: bytes(range(256)) * 4000, "b" * 64: b"x"}
        for fingerprint, content in contents.items():
            await store_version(state, fingerprint, content, author="Ω", note="☕")
        versions = await read_versions(second)
        assert versions.current == "b" * 64
        assert {each.fingerprint: await read_content(second, each) for each in versions.versions} == contents
        await pin_run(state, "r", "a" * 64)
        assert [await version_for(second, run) for run in ("r", "other", None)] == ["a" * 64, "b" * 64, "b" * 64]
        for each in versions.versions:
            await remove_version(second, each)
        await pin_run(state, "r", None)
        assert [(await state.read_entries(each)).entries for each in (PUBLISHED, PARTS, PINS)] == [(), (), ()]

    async def test_a_reading_has_the_time_by_which_jobs_are_delayed(self, queue: Queue, state: SharedState) -> None:
        earlier = await now(queue)
        assert abs((await state.read_entries(NAMESPACE)).now - earlier) < 30

    @pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
    async def test_any_text_is_a_name(self, state: SharedState, text: str) -> None:
        version = await write(state, text, {text: text}, namespace=text)
        assert version
        assert (await state.read_entries(text, frozenset({text}))).entries == (StateEntry(text, version, {text: text}),)

    @pytest.mark.parametrize("value", [object(), "\ud800"], ids=["object", "surrogate"])
    async def test_what_cannot_be_stored_is_refused(self, state: SharedState, value: Any) -> None:
        with pytest.raises(UsageError):
            await state.swap_entries(NAMESPACE, [StateEntry("a", ABSENT, 1), StateEntry("b", ABSENT, value)])
        assert (await state.read_entries(NAMESPACE)).entries == ()
