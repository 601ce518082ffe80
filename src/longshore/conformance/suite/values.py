"""Values: every text, payload and result is returned exactly as it was stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    Scene,
    claim,
    claim_one,
    expire,
    failure,
    find,
    job,
    jobs,
    keys,
    listed,
    settle,
)
from longshore.errors import Failure
from longshore.job import JobName
from longshore.lease import WorkerId
from longshore.outcome import Completed, Failed
from longshore.queue import Queue, Selection, Submitted

ODD = {
    "empty": "",
    "space": " ",
    "spaces around": "  a  ",
    "slashes": "a/b//c/",
    "backslashes": "a\\b\\",
    "dot": ".",
    "dots": "..",
    "way up": "../../etc/passwd",
    "hidden": ".git",
    "absolute": "/etc/passwd",
    "quotes": 'it\'s "so" `odd`',
    "sql": "'; DROP TABLE job; --",
    "wildcards": "100%_*?[a-z]",
    "shell": "$(reboot) & | > < ~ !",
    "lines": "one\ntwo\r\nthree\ttab",
    "device": "NUL",
    "colon": "C:con.txt:stream",
    "url": "https://x.test/a?b=c&d=%20#e",
    "umlauts": "Grüße aus Köln",
    "emoji": "👩‍👩‍👧 ☕",
    "right to left": "שלום עולם",
    "beyond the plane": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "zero width": "a\u200bb\ufeff",
    "control": "a\x01b\x7fc",
    "long": "x" * 300,
    "long and wide": "ß" * 300,
    "leading dash": "--force",
    "number": "007",
    "null": "null",
}
ALIKE = ["a", "A", "a ", " a", "ä", "a\u0308", "Ä", "ａ", "a.", "a/", "a\\", "1", "01", "1.0", "ß", "ss", "İ", "i"]
RESULTS: list[Any] = [
    None,
    True,
    False,
    0,
    -1.5,
    2**53,
    "",
    "Grüße ☕",
    [],
    {},
    [None, [[]], {"a": [1, 2.5, "three"]}],
    {"": None, "nested": {"deep": [{"er": True}]}, "ключ": "значение", "a.b/c": 1},
]


class ValueTests(Scene):
    @pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
    async def test_odd_text_survives_in_every_name(self, queue: Queue, text: str) -> None:
        await queue.submit([job("plain")])
        odd = job(text, run=text, kind=text, partition=text, host=text, payload={"text": text, text: 1})
        assert await queue.submit([odd]) == Submitted(new=1, duplicates=0)
        assert await queue.submit([odd]) == Submitted(new=0, duplicates=1)
        names = frozenset({text})
        (lease,) = await claim(queue, WorkerId.new(text), run=text, kinds=names, partitions=names)
        got = lease.job
        assert (got.run, got.kind, got.key, got.partition, got.host) == (text,) * 5
        assert got.payload == odd.payload
        assert (await find(queue, text, run=text, kind=text)).worker == text
        assert await listed(queue, Selection(run=text, kinds=names, partitions=names)) == [text]
        lanes = [(count.run, count.kind, count.partition, count.claimed) for count in await queue.stats(text)]
        assert lanes == [(text, text, text, 1)]
        follow_on = job(f"{text}+", kind=text, partition=text)
        assert await settle(queue, lease, Completed({text: text}, (follow_on,)))
        assert (await find(queue, text, run=text, kind=text)).result == {text: text}
        child = await find(queue, f"{text}+", run=text, kind=text)
        assert (child.run, child.parent) == (text, JobName(text, text))

    @pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
    async def test_odd_text_survives_in_a_failure(self, queue: Queue, harness: Harness, text: str) -> None:
        await queue.submit(jobs("a"))
        given = Failure("unknown", text, f"shop.{text}", retryable=True, traceback=f"{text}\n" * 3)
        lease = await claim_one(queue, WorkerId.new(text))
        await settle(queue, lease, Failed(given))
        await claim_one(queue, WorkerId.new(text))
        await expire(harness, queue)
        kept, crash = await queue.history(lease.job.id)
        assert (kept.worker, kept.failure, crash.worker) == (text, given, text)

    async def test_texts_that_look_alike_are_not_the_same(self, queue: Queue) -> None:
        assert await queue.submit(jobs(*ALIKE)) == Submitted(new=len(ALIKE), duplicates=0)
        assert await listed(queue) == ALIKE
        await queue.submit([job(text, run=text, kind=text, partition=text) for text in ALIKE])
        for text in ALIKE:
            assert await listed(queue, Selection(run=text)) == [text]
            only = frozenset({text})
            assert keys(await claim(queue, kinds=only)) == [text]
            assert await queue.cancel(Selection(partitions=only)) == 1

    @pytest.mark.parametrize("result", RESULTS, ids=repr)
    async def test_a_result_is_anything_json_can_say(self, queue: Queue, result: Any) -> None:
        await queue.submit(jobs("a"))
        assert await settle(queue, await claim_one(queue), Completed(result))
        there = await find(queue, "a")
        assert there.result == result
        assert type(there.result) is type(result)

    async def test_a_result_that_is_json_already_is_taken_as_it_is(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        raw = msgspec.Raw(b'{"a": [1, 2, {"b": null}], "c": "\\u00e4"}')
        assert await settle(queue, await claim_one(queue), Completed(raw))
        assert (await find(queue, "a")).result == {"a": [1, 2, {"b": None}], "c": "ä"}

    async def test_large_payloads_and_results_survive(self, queue: Queue) -> None:
        large = {"text": "Ω\n" * 500_000, "numbers": list(range(10_000))}
        await queue.submit([job("a", payload=large)])
        lease = await claim_one(queue)
        assert lease.job.payload == large
        assert await settle(queue, lease, Completed(large, (job("b", payload=large),)))
        assert (await find(queue, "a")).result == large
        assert (await find(queue, "b")).payload == large

    async def test_payloads_keep_their_types(self, queue: Queue) -> None:
        payload: dict[str, Any] = {
            "i": 2**53,
            "f": 0.1,
            "e": 1e300,
            "t": True,
            "n": None,
            "l": [1, "1", 1.5],
            "d": {"x": {}},
            "": [],
        }
        await queue.submit([job("a", payload=payload), job("empty", payload={})])
        first, second = await claim(queue)
        assert first.job.payload == payload
        assert {name: type(value) for name, value in first.job.payload.items()} == {
            name: type(value) for name, value in payload.items()
        }
        assert second.job.payload == {}

    async def test_a_worker_that_changes_a_payload_changes_only_its_copy(self, queue: Queue) -> None:
        given: dict[str, Any] = {"seen": []}
        await queue.submit([job("a", payload=given)])
        given["seen"].append("by the submitter")
        lease = await claim_one(queue)
        lease.job.payload["seen"].append("by the worker")
        await settle(queue, lease, Failed(failure()))
        assert (await claim_one(queue)).job.payload == {"seen": []}

    async def test_priorities_may_be_far_apart(self, queue: Queue) -> None:
        far = 2**31 - 1
        await queue.submit([job("last", priority=far), job("middle"), job("first", priority=-far)])
        assert keys(await claim(queue)) == ["first", "middle", "last"]
        assert [j.priority for j in await queue.jobs(ALL)] == [far, 0, -far]
