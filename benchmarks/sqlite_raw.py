"""The measure of all things: the least that a queue on SQLite can do, by hand, without leases, keys or statistics."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

from benchmarks.measure import PAYLOAD

BATCH = 100
SUBMIT_BATCH = 5000


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection that waits for its turn as SQLite does by default."""
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    return db


def create(path: Path, synchronous: str) -> None:
    """One table, one index."""
    db = connect(path, synchronous)
    db.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, payload TEXT NOT NULL)")
    db.execute("CREATE INDEX job_pending ON job (id) WHERE state = 0")
    db.close()


def submit(path: Path, synchronous: str, jobs: int) -> float:
    """Add jobs, a transaction for each batch. Jobs a second."""
    db = connect(path, synchronous)
    seconds = 0.0
    for first in range(0, jobs, SUBMIT_BATCH):
        payloads = [{**PAYLOAD, "n": number} for number in range(first, first + SUBMIT_BATCH)]
        begin = time.monotonic()
        rows = [(json.dumps(payload),) for payload in payloads]
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO job (state, payload) VALUES (0, ?)", rows)
        db.execute("COMMIT")
        seconds += time.monotonic() - begin
    db.close()
    return jobs / seconds


def drain(path: Path, synchronous: str) -> int:
    """Claim and finish batch after batch until nothing is left."""
    db = connect(path, synchronous)
    done = 0
    while True:
        db.execute("BEGIN IMMEDIATE")
        rows = db.execute(
            "UPDATE job SET state = 1 WHERE id IN (SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT ?)"
            " RETURNING id, payload",
            (BATCH,),
        ).fetchall()
        db.execute("COMMIT")
        if not rows:
            break
        for _, payload in rows:
            json.loads(payload)
        db.execute("BEGIN IMMEDIATE")
        db.executemany("UPDATE job SET state = 2 WHERE id = ?", [(number,) for number, _ in rows])
        db.execute("COMMIT")
        done += len(rows)
    db.close()
    return done
