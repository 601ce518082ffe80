"""The site that all contestants fetch: pages of 32 KB with 50 records each, made beforehand, from a process of its own.

It counts what it serves, so that contestants are measured from outside and all alike. Nobody is served before everybody
who takes part has asked: so the time to start is nobody's advantage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import psutil

from benchmarks.measure import SPAWN

PAGES = 2_000
RECORDS = 50
PAGE_BYTES = 32 * 1024


class Site:
    """A site that runs."""

    def __init__(self, url: str, pid: int, shared: Any) -> None:
        self.url = url
        self._pid = pid
        self._shared = shared

    @property
    def served(self) -> int:
        """Pages served in this round."""
        return int(self._shared[_SERVED])

    @property
    def spent(self) -> float:
        """Its processor time, in seconds."""
        times = psutil.Process(self._pid).cpu_times()
        return float(times.user + times.system)

    def expect(self, visitors: int) -> None:
        """A new round: so many processes, each with a user agent of its own, are to ask before anyone is served."""
        self._shared[_SERVED] = 0
        self._shared[_VISITORS] = visitors
        self._shared[_ROUND] += 1


_ROUND, _VISITORS, _SERVED = range(3)


@contextmanager
def running() -> Iterator[Site]:
    """A site, until the end of the block."""
    here, there = SPAWN.Pipe()
    shared = SPAWN.RawArray("q", 3)
    process = SPAWN.Process(target=_serve, args=(there, shared), daemon=True)
    process.start()
    try:
        yield Site(f"http://127.0.0.1:{here.recv()}", process.pid or 0, shared)
    finally:
        process.kill()
        process.join()


def page(number: int) -> bytes:
    """A page as a shop has it."""
    items = "".join(_item(number * RECORDS + each) for each in range(RECORDS))
    text = f"<!doctype html><html><head><title>Page {number}</title></head><body><main>{items}</main></body></html>"
    return text.encode().ljust(PAGE_BYTES)


def _item(number: int) -> str:
    words = " ".join(f"word{(number * 7 + each) % 1000}" for each in range(56))
    return (
        f'<article class="item" id="i{number}"><h2 class="title"><a href="/item/{number}">Item {number}</a></h2>'
        f'<p class="price">{number % 900 + 1}.99 €</p><p class="text">{words}</p>'
        f'<ul class="tags"><li>new</li><li>tag{number % 50}</li></ul></article>\n'
    )


def _serve(there: Connection, shared: Any) -> None:
    answers = {}
    for number in range(PAGES):
        body = page(number)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
        answers[f"/page/{number}".encode()] = head.encode() + body
    asyncio.run(_run(there, _Door(answers, shared)))


async def _run(there: Connection, door: _Door) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Visit(door), "127.0.0.1", 0, backlog=1024)
    there.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


class _Door:
    """Lets requests in when all who are expected have come."""

    def __init__(self, answers: dict[bytes, bytes], shared: Any) -> None:
        self._answers = answers
        self._shared = shared
        self._round = 0
        self._agents: set[bytes] = set()
        self._open = False
        self._waiting: list[tuple[asyncio.Transport, bytes]] = []

    def asked(self, transport: asyncio.Transport, path: bytes, head: bytes) -> None:
        answer = self._answers.get(path)
        if answer is None:
            transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        if self._round != self._shared[_ROUND]:
            self._round, self._open = self._shared[_ROUND], False
            self._agents.clear()
        if self._open:
            transport.write(answer)
            self._shared[_SERVED] += 1
            return
        self._waiting.append((transport, answer))
        self._agents.add(_agent(head))
        if len(self._agents) >= self._shared[_VISITORS]:
            self._open = True
            for waiting, its_answer in self._waiting:
                waiting.write(its_answer)
            self._shared[_SERVED] += len(self._waiting)
            self._waiting.clear()


class _Visit(asyncio.Protocol):
    def __init__(self, door: _Door) -> None:
        self._door = door
        self._transport: asyncio.Transport
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            self._door.asked(self._transport, head.split(b" ", 2)[1], head)


def _agent(head: bytes) -> bytes:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"user-agent":
            return value
    return b""
