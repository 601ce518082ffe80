"""Work on the filings in the queue: two processes, or more.

python -m filings.worker [--workers 2] [--queue-dir PATH] [--until-done]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from filings import config
from filings.facts.ollama import ensure
from filings.graph import check_graph
from longshore import LongshoreError
from longshore.cli import main as longshore_command
from longshore.settings import DEFAULT, resolve

HANDLERS = Path(__file__).with_name("handlers.py")
WORKERS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the services, load the model, and work until the end of the run or a signal."""
    options = argparse.ArgumentParser(prog="python -m filings.worker", description="Work on filings.")
    options.add_argument(
        "--workers", type=int, default=None, metavar="N", help=f"how many processes (WORKER_COUNT, {WORKERS})"
    )
    options.add_argument("--queue-dir", metavar="PATH", help="the folder of the queue (QUEUE_DIR, data/queue)")
    options.add_argument("--until-done", action="store_true", help="stop when nothing is left to do")
    given = options.parse_args(arguments)
    try:
        config.prepare(config.queue_of(given.queue_dir))
        check_graph()
        ensure_model()
        settings = resolve({})
        if settings.source("concurrency") == DEFAULT:
            # A model answers one question after the other.
            os.environ["LONGSHORE_CONCURRENCY"] = "1"
            os.environ["LONGSHORE_BATCH_SIZE"] = "1"
        workers = given.workers or (settings.workers if settings.source("workers") != DEFAULT else WORKERS)
    except LongshoreError as error:
        print(f"worker: {error}", file=sys.stderr)
        return error.exit_code
    until_done = ["--until-done"] if given.until_done else []
    handlers = os.path.relpath(HANDLERS)
    if workers == 1:
        return longshore_command(["work", handlers, *until_done])
    return longshore_command(["fleet", handlers, "--yes", "--workers", str(workers), *until_done])


def ensure_model() -> None:
    """Load the model into Ollama if it is wanted and not there, with progress."""
    if config.uses_model():
        ensure(config.ollama_url(), config.ollama_model(), lambda line: print(line, file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
