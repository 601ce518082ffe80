"""The worker's end of the pipe to its guardian process (see `guardian`)."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import PIPE

from longshore.system.processes import new_group_flags


class GuardianPipe:
    """Starts the guardian with the first line, and again if it has died."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        self._children: dict[str, None] = {}
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Send a line. From any thread."""
        with self._lock:
            if line.startswith("+"):
                self._children[line] = None
            elif line.startswith("-"):
                self._children.pop(f"+{line[1:]}", None)
            if self._process is None or self._process.poll() is not None:
                self._start()
                if line.startswith("+"):
                    return
            self._write([line])

    def close(self) -> None:
        """Dismiss the guardian, and wait until it has ended."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(b"bye\n")
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)

    def _start(self) -> None:
        # As a file and without Longshore's folder on the path (-P): the guardian is to import as little as possible.
        script = Path(__file__).with_name("guardian.py")
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", str(script), self._mark],
            stdin=PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            creationflags=new_group_flags(),
        )
        self._write(list(self._children))

    def _write(self, lines: list[str]) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # If the guardian died just now, the next line starts another one.
        with contextlib.suppress(OSError):
            self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
