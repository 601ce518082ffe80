"""`WorkerProxyPool`: the proxies of one worker, for programs of your own that are no handlers.

Handlers need none of this: `kit.http` and `kit.browser` use the proxies of `PROXY_FILE` by themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from longshore.scrape.proxies import Blame, ChangeLog, NoProxyError, ProxyLimits, ProxyPool, ProxyTurn, Strategy, share
from longshore.scrape.proxies.proxy_file import read_proxies

T = TypeVar("T")


class WorkerProxyPool:
    """The share of one worker in the proxies of a file, with health for each of them.

        with WorkerProxyPool(3, "proxies.txt") as pool:
            proxy = pool.get_proxy()
            pool.report_success(proxy)  # or report_failure(proxy, "answered 403")

    Calls may come from any thread. Each proxy that was given out is reported once for each time.
    """

    def __init__(
        self,
        worker_id: int,
        proxy_file: str | Path = "proxies.txt",
        *,
        worker_count: int = 10,
        strategy: str = "round_robin",
        blacklist_threshold: int = 10,
        blacklist_duration_minutes: float = 60,
        log: str | Path | None = "logs/proxies.log",
    ) -> None:
        """Take the share of worker `worker_id` of `worker_count`. Raise `InputFileError` if the file cannot be read."""
        proxies = share(read_proxies(Path(proxy_file)), worker_id, worker_count)
        limits = ProxyLimits(threshold=blacklist_threshold, rest=timedelta(minutes=blacklist_duration_minutes))
        tell = None if log is None else ChangeLog(Path(log))
        self._pool = ProxyPool(proxies, strategy=Strategy(strategy), limits=limits, tell=tell)
        self._turns: dict[str, list[ProxyTurn]] = {}
        # A pool belongs to one event loop.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        """Return how many proxies the worker has."""
        return len(self._pool.proxies)

    def get_proxy(self, host: str = "", *, within: float = 0) -> str:
        """Return the URL of a proxy for one request to `host`; an empty host stands for all of them.

        If all proxies are blacklisted, wait up to `within` seconds, and then raise `NoProxyError`, whose `retry_in` is
        the time until one may be tried again.
        """
        waited = timedelta(seconds=within)

        async def take() -> ProxyTurn:
            turn = await self._pool.acquire(host, within=waited)
            self._turns.setdefault(turn.url, []).append(turn)
            return turn

        return asyncio.run_coroutine_threadsafe(take(), self._loop).result().url

    def report_success(self, proxy: str) -> None:
        """Report that a request through this proxy succeeded."""
        self._in_loop(lambda: self._turn(proxy).succeeded())

    def report_failure(self, proxy: str, why: str = "it failed") -> None:
        """Report that a request through this proxy failed. After the threshold it is blacklisted for that host."""
        self._in_loop(lambda: self._turn(proxy).judged(Blame.SITE, why))

    def stats(self) -> dict[str, dict[str, int | bool]]:
        """Return the counts of each proxy, and whether it is blacklisted. Passwords are masked."""

        def read() -> dict[str, dict[str, int | bool]]:
            return {
                each.proxy: {
                    "requests": each.requests,
                    "succeeded": each.succeeded,
                    "failed": each.failed,
                    "blacklisted": any(place.state == "resting" for place in each.places),
                }
                for each in self._pool.standings()
            }

        return self._in_loop(read)

    def close(self) -> None:
        """End the pool. Proxies that were not reported count as given back."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _turn(self, proxy: str) -> ProxyTurn:
        turns = self._turns.get(proxy)
        if not turns:
            raise ValueError("This proxy was not given out, or was reported already.")
        return turns.pop(0)

    def _in_loop(self, call: Callable[[], T]) -> T:
        async def called() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()


__all__ = ["NoProxyError", "WorkerProxyPool"]
