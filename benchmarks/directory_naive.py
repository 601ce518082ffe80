"""The measure of the directory medium: the least that a queue of renamed files can do, by hand.

One folder a state, one file a job; no leases, epochs, keys, batches, results or statistics. With `synced`, the file and
the folder it moved to are synced at every step, so that what was answered survives a power cut. Plain `os` calls, for
objects for paths would slow it down.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.measure import PAYLOAD

FOLDERS = ("pending", "processing", "completed")


def fill(root: Path, jobs: int) -> None:
    """A queue with that many jobs pending."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for number in range(jobs):
        (root / "pending" / f"{number:08d}.json").write_text(json.dumps({**PAYLOAD, "n": number}))


def drain(root: Path, synced: bool) -> int:
    """Take and finish one job after another until nothing is left. Others who were first are passed over."""
    pending, processing, completed = (f"{root}/{folder}" for folder in FOLDERS)
    done = 0
    for name in sorted(os.listdir(pending)):  # noqa: PTH208
        try:
            _step(f"{pending}/{name}", f"{processing}/{name}", synced)
        except FileNotFoundError:
            continue
        with open(f"{processing}/{name}") as file:  # noqa: PTH123
            json.load(file)
        _step(f"{processing}/{name}", f"{completed}/{name}", synced)
        done += 1
    return done


def _step(source: str, target: str, synced: bool) -> None:
    os.rename(source, target)  # noqa: PTH104
    if synced:
        _sync(target)
        _sync(os.path.dirname(target))  # noqa: PTH120


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
