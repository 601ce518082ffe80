"""The page cache: responses on disk, so that the same page is not fetched twice.

Each page is one compressed file, written atomically, so that several processes may share a folder and none reads a
partial page. A file that cannot be read counts as missing, and its page is fetched again.
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
from longshore.system.private_files import make_private
from longshore.url import canonical_url

DEFAULT_TTL = timedelta(days=1)
DEFAULT_MAX_BYTES = 1024 * 1024 * 1024

# Statuses whose body is the page itself.
_CACHED_STATUSES = frozenset({200, 203})
_SUFFIX = ".page"
# The share of `max_bytes` that one cleanup frees, so that not every write needs one.
_FREED_SHARE = 0.1


class CachedPage(msgspec.Struct, frozen=True):
    """A cached response, and when the site last confirmed it."""

    url: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    at: float
    """Seconds since 1970."""

    @property
    def response(self) -> Response:
        """The response as it was received."""
        from multidict import CIMultiDict, CIMultiDictProxy

        headers = CIMultiDictProxy(CIMultiDict(self.headers))
        return Response(url=self.url, status=self.status, headers=headers, body=self.body)

    def conditions(self) -> dict[str, str]:
        """Return the headers for a conditional request; empty if the page has neither ETag nor Last-Modified."""
        given = {name.lower(): value for name, value in self.headers}
        asked = {"If-None-Match": given.get("etag", ""), "If-Modified-Since": given.get("last-modified", "")}
        return {name: value for name, value in asked.items() if value}


class PageCache:
    """Responses to GET, fresh for `ttl`, in at most `max_bytes` on disk; the least recently used ones are evicted.

    Only `ttl` decides: the site's caching headers are ignored. The key is the canonical URL with the headers and body
    of the request, so that a request never gets a response to other headers, such as another login.
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
        """Return whether the page is younger than `ttl`."""
        return 0 <= self._clock.now() - page.at < self._ttl

    async def find(self, request: Request) -> CachedPage | None:
        """Return the cached response to this request, fresh or not; None if there is none."""
        return await asyncio.to_thread(self._read, self._path(request))

    async def keep(self, request: Request, answer: Response) -> None:
        """Store a response with status 200 or 203. A full or read-only disk stores nothing and raises nothing."""
        if answer.status in _CACHED_STATUSES:
            headers = [(str(name), value) for name, value in answer.headers.items()]
            page = CachedPage(answer.url, answer.status, headers, answer.body, self._clock.now())
            await asyncio.to_thread(self._write, self._path(request), page)

    async def renew(self, request: Request, page: CachedPage) -> None:
        """Mark the page as fresh from now: the site answered that it has not changed."""
        page = msgspec.structs.replace(page, at=self._clock.now())
        await asyncio.to_thread(self._write, self._path(request), page)

    def _path(self, request: Request) -> Path:
        headers = sorted((name.lower(), value) for name, value in request.headers.items())
        # Some search APIs use a GET with a body: another body is another page.
        sent = [request.body] if request.body else []
        what = msgspec.json.encode([request.method, canonical_url(request.url), headers, *sent])
        key = hashlib.sha256(what).hexdigest()
        return self._folder / key[:2] / f"{key}{_SUFFIX}"

    def _read(self, path: Path) -> CachedPage | None:
        import zstandard

        try:
            packed = path.read_bytes()
            page = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed), type=CachedPage)
            # Eviction sorts by modification time: mark this page as used.
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
            make_private(path.parent)
            write_atomically(path, packed, private=True)
            self._size = (self._measure() if self._size is None else self._size) + len(packed)
            if self._size > self._max_bytes:
                self._size = self._evict()

    def _measure(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _evict(self) -> int:
        # Measure again: other processes also write and evict.
        files = sorted(self._files())
        size = sum(size for _, size, _ in files)
        for _, freed, path in files:
            if size <= self._max_bytes * (1 - _FREED_SHARE):
                break
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            size -= freed
        return size

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return last use, size and path of each file, including unfinished files of processes that died."""
        files = []
        for path in self._folder.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                files.append((stat.st_mtime, stat.st_size, path))
        return files
