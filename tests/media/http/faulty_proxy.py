"""A TCP proxy whose connections are cut, delayed and left half open, by a seed.

Faults that a client may notice as "no answer":
    cut before        the connection is closed before the request has reached the server
    answer lost       the server gets the request; the connection is closed in the middle of the answer
    half open         the connection stays, and nothing comes through it any more
And one that it may not notice: delayed pieces. An answer is only lost if the request may be repeated: a client cannot
know what a lost answer to a submission was, and neither can a test.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

_REPEATABLE = re.compile(
    rb"(GET |POST \S*/(claims|renewals|leases|wait|jobs/search|jobs/payloads|state/read|records|pages\S*|bundles) )"
)
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class FaultyProxy:
    """A proxy in a thread of its own."""

    def __init__(self, port: int, seed: str, *, faults: float = 0.06, script: Sequence[str] | None = None) -> None:
        """Pass connections on to `port`; this share of the requests meets a fault, or those of `script`, in order."""
        self._to = port
        self._random = random.Random(seed)
        self._faults = faults
        self._script = None if script is None else list(script)
        self.met: Counter[str] = Counter()
        """How many requests met which fault."""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._listening, self._stopping = threading.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._listening.wait(10), "the proxy did not start"

    def stop(self) -> None:
        """Close all connections."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        far: asyncio.StreamWriter | None = None
        try:
            # Cancelled when the proxy stops; the stream would complain about a task that ended so.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                back, far = await asyncio.open_connection("127.0.0.1", self._to)
                while await self._exchange(reader, writer, back, far):
                    pass
        finally:
            self._tasks.discard(task)
            for each in (writer, far):
                if each is not None:
                    each.close()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamReader,
        far: asyncio.StreamWriter,
    ) -> bool:
        """Pass one request and its answer on. Return False if the connection has ended."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        fault = self._fault(head, body)
        if fault is not None:
            self.met[fault] += 1
        match fault:
            case "cut before":
                return False
            case "half open":
                await asyncio.Event().wait()
            case "delayed":
                for start in range(0, len(body), max(1, len(body) // 3)):
                    await asyncio.sleep(self._random.random() * 0.01)
                    far.write((head if not start else b"") + body[start : start + max(1, len(body) // 3)])
                if not body:
                    far.write(head)
            case _:
                far.write(head + body)
        await far.drain()
        answer = await back.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answer)
        if length is None:
            answer += await back.readuntil(b"\r\n0\r\n\r\n")
        else:
            answer += await back.readexactly(int(length[1]))
        if fault in {"answer lost", "half an answer"}:
            some = self._random.randrange(len(answer)) if fault == "answer lost" else answer.index(b"\r\n\r\n") + 4
            writer.write(answer[:some])
            await writer.drain()
            return False
        writer.write(answer)
        await writer.drain()
        return True

    def _fault(self, head: bytes, body: bytes) -> str | None:
        if self._script is not None:
            return self._script.pop(0) if self._script else None
        if self._random.random() >= self._faults:
            return None
        kinds = ["cut before", "half open", "delayed"]
        completes = b"/settlements " in head and b'"released"' not in body and b'"snoozed"' not in body
        if _REPEATABLE.match(head) or completes:
            kinds += ["answer lost", "answer lost"]
        return self._random.choice(kinds)
