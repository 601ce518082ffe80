"""How good estimates are on real runs: `python -m benchmarks.record_runs FOLDER [--runs N]`.

Each run is submitted, worked on and watched by the real commands, on SQLite; its jobs sleep, for times drawn from what
such runs are made of. The recordings stay in the folder, and what an estimate would have said at a tenth, a quarter,
half and three quarters of each is compared with what came.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web

from longshore.runs.estimate.recorded_runs import Replayed, coverage, read_recording, replay

SORTS = {
    "lognormal": "chance.lognormvariate(-1.5, 1.0)",
    "pareto": "min(0.1 * chance.paretovariate(1.5), 8)",
    "bimodal": "2.0 if chance.random() < 0.1 else 0.15",
    "retries": "chance.lognormvariate(-1.5, 0.6)",
    "follow_on": "chance.lognormvariate(-1.5, 0.6)",
    "paced": "0.05",
}
"""The sorts of runs, and the seconds that a job of each sleeps."""
_HANDLERS = """import asyncio, hashlib, random
from longshore import Result, handler, new_job

@handler("page", retries=5, backoff=0.5)
async def page(job, kit):
    chance = random.Random(hashlib.sha256(f"{SEED} {job.payload['url']} {job.attempt}".encode()).digest())
    await asyncio.sleep(SECONDS)
    if SORT == "paced":
        await kit.http.get(job.payload["url"])
    if SORT == "retries" and chance.random() < 0.25:
        raise ConnectionError("try again")
    number = 2 if SORT == "follow_on" and chance.random() < 0.3 else 0
    return Result({}, jobs=[new_job("page", {"url": f"{job.payload['url']}/{n}"}) for n in range(number)])
"""
_LONGEST = 180


def main() -> int:
    """Record and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=6, help="of each sort")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with _site() as address:
        for seed in range(chosen.runs):
            for sort in SORTS:
                file = chosen.folder / f"{sort}_{seed}.jsonl"
                if not file.exists():
                    _record(sort, seed, address, file.resolve())
    found: defaultdict[str, list[Replayed]] = defaultdict(list)
    for file in sorted(chosen.folder.glob("*.jsonl")):
        found[file.stem.rpartition("_")[0]] += replay(read_recording(file))
    found["all"] = [each for checks in found.values() for each in checks]
    for sort, checks in found.items():
        print(_said(sort, checks))
    return 0


def _said(sort: str, checks: list[Replayed]) -> str:
    within_p50, within_p90 = coverage(checks)
    known = sum(each.estimate.p50 is not None for each in checks)
    return (
        f"{sort:12} {known:4} of {len(checks):4} estimated, {within_p50:5.0%} within P50, {within_p90:5.0%} within P90"
    )


def _record(sort: str, seed: int, address: str, file: Path) -> None:
    longshore, quiet = [sys.executable, "-m", "longshore"], subprocess.DEVNULL
    with TemporaryDirectory() as folder:
        words = f"SORT, SEED = {sort!r}, {seed}\n" + _HANDLERS.replace("SECONDS", SORTS[sort])
        (Path(folder) / "pages.py").write_text(words)
        site = address if sort == "paced" else "https://example.org"
        (Path(folder) / "urls.txt").write_text("".join(f"{site}/{n}\n" for n in range(60)))

        def run(*arguments: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*longshore, *arguments], cwd=folder, stdout=quiet, stderr=quiet)

        run("submit", "page", "--urls-file", "urls.txt", "--run", "r").wait(_LONGEST)
        worker = run("work", "pages.py", "--run", "r", "--until-done", "--concurrency", "4")
        try:
            run("wait", "r", "--record", str(file), "--timeout", f"{_LONGEST}s").wait(2 * _LONGEST)
        finally:
            worker.terminate()
            worker.wait(_LONGEST)


@contextmanager
def _site() -> Iterator[str]:
    """A site on loopback that wants a fifth of a second between two requests."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ports: list[int] = []

    async def page(request: web.Request) -> web.Response:
        robots = request.path == "/robots.txt"
        return web.Response(text="User-agent: *\nCrawl-delay: 0.2\n" if robots else "a page")

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/{path:.*}", page)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ports.append(runner.addresses[0][1])
        return runner

    def serve() -> None:
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
