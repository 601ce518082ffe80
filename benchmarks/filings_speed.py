"""How much faster two and four workers read filings than one, if each filing waits for a model (ledger C6).

python -m benchmarks.filings_speed [--jobs 40] [--seconds 3] [--turns 1]

The replica is quick, the model is a scripted one behind Ollama's routes that takes `--seconds` for each filing, and the
queue is a folder. Each worker has one filing at a time. The time is that from the first claim to the last settlement.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from tests.recipes.filings_scene import FilingsFolder, FilingsReplica
from tests.services.ollama import OllamaAdapter

from filings.edgar.submission import read_submission
from filings.facts.model import passages
from filings.replica.layouts import file_of
from filings.replica.stories import filings


def jobs(source: str, number: int, file: Path) -> None:
    """Write jobs for filings with one passage each. The same filing may be there several times."""
    chosen = [each for each in filings() if len(list(passages(read_submission(file_of(each))))) == 1 and not each.fault]
    with file.open("w") as out:
        for count in range(number):
            filing = chosen[count % len(chosen)]
            payload = {
                "url": f"{source}/{filing.path}",
                "accession": filing.accession,
                "form": filing.form,
                "filed": filing.filed.isoformat(),
                "ai": True,
            }
            out.write(json.dumps({"payload": payload, "key": f"{filing.accession}-{count}"}) + "\n")


def measured(folder: FilingsFolder, workers: int) -> float:
    """Return the seconds from the first claim to the last settlement."""
    folder.run("longshore", "submit", "filing", "--jobs-file", "jobs.jsonl", "--run", "speed")
    folder.finish(folder.start("filings.worker", "--until-done", "--workers", str(workers)))
    rows = json.loads(folder.run("longshore", "jobs", "--run", "speed", "--limit", "0", "--json").stdout)
    assert all(row["state"] == "completed" for row in rows)
    ends = [row["settled_at"] for row in rows]
    return float(max(ends) - min(row["settled_at"] - row["seconds"] for row in rows))


def speeds(jobs_each: int, seconds: float, turns: int) -> dict[int, float]:
    """Return the median time for each number of workers."""
    found: dict[int, list[float]] = {1: [], 2: [], 4: []}
    for turn in range(turns):
        for workers, times in found.items():
            with tempfile.TemporaryDirectory() as name:
                times.append(_once(Path(name), workers, jobs_each, seconds))
            load = os.getloadavg()[0]
            print(f"turn {turn + 1}: {workers} workers {times[-1]:.1f} s (load {load:.0f})", flush=True)
    return {workers: statistics.median(times) for workers, times in found.items()}


def _once(place: Path, workers: int, jobs_each: int, seconds: float) -> float:
    replica = FilingsReplica("--rate", "1000", "--seconds", "0", "--slow-seconds", "0", "--troubled", "0")
    adapter = OllamaAdapter(place, {}, "--seconds", str(seconds), "--model", "small:latest")
    settings = {"USE_AI_EXTRACTION": "true", "OLLAMA_BASE_URL": adapter.url, "OLLAMA_MODEL": "small"}
    folder = FilingsFolder(place / "here", replica, **settings)
    try:
        jobs(replica.url, jobs_each, folder.folder / "jobs.jsonl")
        return measured(folder, workers)
    finally:
        folder.kill_all()
        adapter.stop()
        replica.stop()


def main() -> None:
    """Measure, and print a line for each number of workers."""
    options = argparse.ArgumentParser()
    options.add_argument("--jobs", type=int, default=40)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--turns", type=int, default=1)
    given = options.parse_args()
    found = speeds(given.jobs, given.seconds, given.turns)
    for workers, each in found.items():
        print(f"{workers} workers: {each:.1f} s, {found[1] / each:.2f} times as fast as one")


if __name__ == "__main__":
    main()
