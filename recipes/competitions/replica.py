"""A replica of a football site, as unfriendly as the real ones: slow pages, errors, block pages, limits, bans.

    python -m competitions.replica --port 8002 [--competitions 12] [--rate 30] [--burst 40]

`/truth.json` is what a perfect scrape finds, `/counts.json` what the replica did to its visitors.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from competitions.replica_data import competitions, truth
from competitions.replica_pages import BLOCK_PAGE, Written, competition_page, front_page, lot, season_page

_TROUBLES = ("block page", "error", "cut off", "slow", "refused", "banned")
_REFUSALS, _WINDOW_SECONDS, _BAN_SECONDS = 12, 3.0, 1.5
"""After this many refusals within the window, a visitor is banned."""


class Replica(ThreadingHTTPServer):
    """The server, with its limits."""

    daemon_threads = True

    def __init__(self, port: int, number: int, rate: float, burst: float, slow: float) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.number, self.slow = number, slow
        self.by_id = {each.competition_id: each for each in competitions(number)}
        self.counts: Counter[str] = Counter()
        self._rate, self._burst, self._tokens, self._filled = rate, burst, burst, time.monotonic()
        self._refused: deque[float] = deque()
        self._banned_until = 0.0
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def admit(self) -> str:
        """Take a token. Return `ok`, `refused` if there is none, or `banned`."""
        with self._lock:
            now = time.monotonic()
            verdict = "ok"
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
            self._filled = now
            while self._refused and self._refused[0] < now - _WINDOW_SECONDS:
                self._refused.popleft()
            if now < self._banned_until:
                verdict = "banned"
            elif self._tokens < 1:
                verdict = "refused"
                self._refused.append(now)
                if len(self._refused) >= _REFUSALS:
                    self._banned_until = now + _BAN_SECONDS
                    self._refused.clear()
            else:
                self._tokens -= 1
            self.counts[verdict] += 1
            return verdict

    def trouble(self, path: str) -> str:
        """Return what happens to this request: some pages have trouble when they are first asked for."""
        with self._lock:
            self._seen[path] += 1
            first = self._seen[path] == 1
            kind = dict(enumerate(_TROUBLES)).get(lot(path, 2 * len(_TROUBLES)), "")
            trouble = kind if first or kind == "slow" else ""
            self.counts[trouble or "fine"] += 1
            return trouble


class _Handler(BaseHTTPRequestHandler):
    server: Replica

    def do_GET(self) -> None:
        """Answer one request."""
        parts = urlsplit(self.path)
        if parts.path == "/truth.json":
            self._send(200, Written(json.dumps(truth(self.server.number)).encode(), "application/json"))
        elif parts.path == "/counts.json":
            self._send(200, Written(json.dumps(self.server.counts).encode(), "application/json"))
        elif not parts.path.startswith("/competitions"):
            self._send(404, Written(b"There is no such page."))
        else:
            self._visit(parts.path, int(parse_qs(parts.query).get("page", ["1"])[0]))

    def _visit(self, path: str, page: int) -> None:
        found = self._found(path, page)
        verdict = self.server.admit()
        trouble = verdict if verdict != "ok" or found is None else self.server.trouble(self.path)
        if trouble in {"refused", "banned"}:
            status, text = (429, "Too many requests") if trouble == "refused" else (403, "You are banned")
            self._send(status, Written(text.encode()), {"Retry-After": "1"} if trouble == "refused" else {})
        elif found is None:
            self._send(404, Written(b"There is no such page."))
        elif trouble == "error":
            self._send(503, Written(b"Try again"))
        elif trouble == "block page":
            self._send(200, Written(BLOCK_PAGE.encode()))
        elif trouble == "cut off":
            self._send(200, Written(found.body[: len(found.body) * 2 // 3], found.content_type))
        else:
            time.sleep(self.server.slow if trouble == "slow" else 0)
            self._send(200, found)

    def _found(self, path: str, page: int) -> Written | None:
        match path.strip("/").split("/"):
            case ["competitions"]:
                return front_page(list(self.server.by_id.values()), page)
            case ["competitions", name] if name in self.server.by_id:
                return competition_page(self.server.by_id[name])
            case ["competitions", name, "seasons", number] if name in self.server.by_id:
                found = self.server.by_id[name]
                season = next((each for each in found.seasons if str(each.number) == number), None)
                return None if season is None else season_page(found, season, page)
        return None

    def _send(self, status: int, written: Written, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": written.content_type, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(written.body)))
        self.end_headers()
        self.wfile.write(written.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is Python's)
        """Log nothing."""


def main() -> None:
    """Serve until the process is ended."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8002)
    options.add_argument("--competitions", type=int, default=12)
    options.add_argument("--rate", type=float, default=30.0, help="requests a second that it takes")
    options.add_argument("--burst", type=float, default=40.0, help="requests that it takes at once")
    options.add_argument("--slow", type=float, default=0.4, help="seconds that a slow page takes")
    given = options.parse_args()
    with Replica(given.port, given.competitions, given.rate, given.burst, given.slow) as server:
        print(f"The replica is at http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
