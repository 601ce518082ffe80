"""Pages kept on disk for a while, so that the same page is not fetched twice.

One file a page, compressed, written aside and moved into its place, so that several processes may share a folder and
none ever reads half a page. A file that cannot be read is no page, and is fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from datetime import timedelta
from pathlib import Path

import msgspec

from longshore.clock import Clock, SystemClock
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response
from longshore.system.atomic_file import write_atomically
from longshore.url import canonical_url

DEFAULT_TTL = timedelta(days=1)
DEFAULT_MAX_BYTES = 1024 * 1024 * 1024

# Answers that are the page itself.
_KEPT = frozenset({200, 203})
_ENDING = ".page"
# What is cleared away at a time, so that it is not done for every page.
_ROOM = 0.1


class CachedPage(msgspec.Struct, frozen=True):
    """An answer, and when it was last known to be true."""

    url: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    at: float
    """Seconds since 1970."""

    @property
    def response(self) -> Response:
        """As it was answered."""
        from multidict import CIMultiDict, CIMultiDictProxy

        headers = CIMultiDictProxy(CIMultiDict(self.headers))
        return Response(url=self.url, status=self.status, headers=headers, body=self.body)

    def conditions(self) -> dict[str, str]:
        """The headers that ask for the page only if it has changed since; empty where it cannot be asked so."""
        said = {name.lower(): value for name, value in self.headers}
        asked = {"If-None-Match": said.get("etag", ""), "If-Modified-Since": said.get("last-modified", "")}
        return {name: value for name, value in asked.items() if value}


class PageCache:
    """Answers to GET, fresh for `ttl`, in at most `max_bytes` on disk; those used longest ago make room.

    `ttl` is the user's word: what the site says about caching is not asked. A page is found by its canonical URL and
    the headers and body given with the request, so that nobody is served what was answered to others.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ttl: timedelta = DEFAULT_TTL,
        max_bytes: int = DEFAULT_MAX_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self._folder = folder
        self._ttl = ttl.total_seconds()
        self._max_bytes = max_bytes
        self._clock = clock or SystemClock()
        self._size: int | None = None

    def fresh(self, page: CachedPage) -> bool:
        """Whether the page may be taken as it is."""
        return 0 <= self._clock.now() - page.at < self._ttl

    async def find(self, request: Request) -> CachedPage | None:
        """What was answered to this request before, fresh or not."""
        return await asyncio.to_thread(self._read, self._path(request))

    async def keep(self, request: Request, answer: Response) -> None:
        """Keep an answer, if it is one to keep. A disk that is full or read-only keeps nothing, and that is all."""
        if answer.status in _KEPT:
            headers = [(str(name), value) for name, value in answer.headers.items()]
            page = CachedPage(answer.url, answer.status, headers, answer.body, self._clock.now())
            await asyncio.to_thread(self._write, self._path(request), page)

    async def renew(self, request: Request, page: CachedPage) -> None:
        """The site says that it has not changed: fresh from now."""
        page = msgspec.structs.replace(page, at=self._clock.now())
        await asyncio.to_thread(self._write, self._path(request), page)

    def _path(self, request: Request) -> Path:
        headers = sorted((name.lower(), value) for name, value in request.headers.items())
        # Some search by a GET with a body: another body is another page.
        sent = [request.body] if request.body else []
        what = msgspec.json.encode([request.method, canonical_url(request.url), headers, *sent])
        key = hashlib.sha256(what).hexdigest()
        return self._folder / key[:2] / f"{key}{_ENDING}"

    def _read(self, path: Path) -> CachedPage | None:
        import zstandard

        try:
            packed = path.read_bytes()
            page = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed), type=CachedPage)
            # For those that make room: this one is in use.
            os.utime(path)
            return page
        except (OSError, zstandard.ZstdError, msgspec.DecodeError, MemoryError):
            return None

    def _write(self, path: Path, page: CachedPage) -> None:
        import zstandard

        packed = zstandard.ZstdCompressor().compress(msgspec.msgpack.encode(page))
        if len(packed) > self._max_bytes:
            return
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, packed, private=True)
            self._size = (self._measure() if self._size is None else self._size) + len(packed)
            if self._size > self._max_bytes:
                self._size = self._make_room()

    def _measure(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _make_room(self) -> int:
        # Measured anew: other processes write and clear away, too.
        files = sorted(self._files())
        size = sum(size for _, size, _ in files)
        for _, freed, path in files:
            if size <= self._max_bytes * (1 - _ROOM):
                break
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            size -= freed
        return size

    def _files(self) -> list[tuple[float, int, Path]]:
        """When each was used, its size, and where it is; those that a process left unfinished, too."""
        files = []
        for path in self._folder.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                about = path.stat()
                files.append((about.st_mtime, about.st_size, path))
        return files
