"""Commands that start at once: a process that has imported the package, of which every command is a copy.

A command of the tests spends most of its time on imports. A copy is a process of its own all the same: with its own
folder, environment and streams, with signals, and with the interpreter's end and exit code.

    python tests/services/warm.py NUMBER     the number of the socket on which commands come in
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

LENGTH = struct.Struct("!I")
NUMBER = struct.Struct("!i")
READ_AT_THE_START = ("PYTHON", "LANG", "LC_", "TZ")
"""How the variables are called that an interpreter reads when it starts, and never again."""
NOT_IMPORTED = ("__main__", "child", "conformance", "guardian", "testing")
"""Programs of their own, and what no command uses."""


class Warm:
    """The process, and how it is asked."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it with these variables; by default with those of this process."""
        variables = dict(os.environ if environment is None else environment)
        self._asked, theirs = socket.socketpair()
        self._one_after_the_other = threading.Lock()
        self._fixed = _fixed(variables)
        with theirs:
            # Pipes, as commands have them: what an interpreter finds out about its streams, it finds out at its start.
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                env=variables,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.close()
        self._process.communicate()

    def can(self, environment: dict[str, str]) -> bool:
        """Whether a copy would be what a new interpreter with these variables is."""
        return _fixed(environment) == self._fixed

    def run(
        self, arguments: tuple[str, ...], *, cwd: Path, env: dict[str, str], stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """`python -m longshore ARGUMENTS`, run to its end."""
        given, feed = os.pipe()
        said, out = os.pipe()
        complained, err = os.pipe()
        with ThreadPoolExecutor(3) as pool:
            started = self.start(arguments, cwd=cwd, env=env, streams=(given, out, err))
            for theirs in (given, out, err):
                os.close(theirs)
            pool.submit(_feed, feed, stdin)
            streams = [pool.submit(_read, stream) for stream in (said, complained)]
            try:
                code = started.wait(timeout)
            except TimeoutError:
                os.kill(started.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["longshore", *arguments], timeout) from None
            return subprocess.CompletedProcess(arguments, code, *(stream.result() for stream in streams))

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        streams: tuple[int, int, int],
        module: str = "longshore",
    ) -> Started:
        """Start `python -m MODULE ARGUMENTS` with these streams (input, output, errors), and return at once."""
        request = json.dumps({"module": module, "arguments": list(arguments), "cwd": str(cwd), "env": env}).encode()
        told, teller = socket.socketpair()
        with teller, self._one_after_the_other:
            socket.send_fds(self._asked, [LENGTH.pack(len(request))], [*streams, teller.fileno()])
            self._asked.sendall(request)
        return Started(told)


class Started:
    """A command that was started."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = _number(told)
        self.code: int | None = None
        """Its exit code (minus the signal's number, if a signal ended it); None while it runs."""

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        try:
            return self.wait(0)
        except BlockingIOError:
            return None

    def wait(self, timeout: float) -> int:
        """Return the exit code. Raise `TimeoutError` if it does not end within `timeout` seconds."""
        if self.code is None:
            self._told.settimeout(timeout)
            self.code = _number(self._told)
            self._told.close()
        return self.code


def _fixed(environment: Any) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_THE_START)}


def _feed(stream: int, text: str) -> None:
    # Who ends without having read all of it has no use for the rest.
    with suppress(BrokenPipeError), os.fdopen(stream, "wb") as feed:
        feed.write(text.encode())


def _read(stream: int) -> str:
    with os.fdopen(stream, encoding="utf-8") as text:
        return text.read()


def _number(told: socket.socket) -> int:
    packed = told.recv(NUMBER.size, socket.MSG_WAITALL)
    assert packed, "the process of which commands are copies is gone"
    return int(NUMBER.unpack(packed)[0])


def main(number: int) -> None:
    """Wait for commands, until nobody is there who could ask."""
    # The folder of this file, which no command has on its path.
    del sys.path[0]
    _import_everything()
    assert threading.active_count() == 1, "threads are not copied"
    # Ctrl-C is for the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = socket.socket(fileno=number)
    while True:
        length, streams, _, _ = socket.recv_fds(asked, LENGTH.size, 4)
        if not length:
            return
        request = asked.recv(LENGTH.unpack(length)[0], socket.MSG_WAITALL)
        if os.fork() == 0:
            asked.close()
            _keep(json.loads(request), streams[:3], socket.socket(fileno=streams[3]))
        for stream in streams:
            os.close(stream)
        # Those that kept the commands before.
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _import_everything() -> None:
    package = import_module("longshore")
    for found in pkgutil.walk_packages(package.__path__, "longshore."):
        if not set(found.name.split(".")) & set(NOT_IMPORTED):
            import_module(found.name)
    # What is there now is there for ever: a copy need not look through it, nor have pages of its own for it.
    gc.collect()
    gc.freeze()


def _keep(command: dict[str, Any], streams: list[int], teller: socket.socket) -> NoReturn:
    """Start the command, and tell its process id and how it ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pid = os.fork()
    if pid == 0:
        teller.close()
        _become(command, streams)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Its streams end with it.
    for stream in (*streams, 0, 1):
        os.close(stream)
    teller.sendall(NUMBER.pack(pid))
    _, status = os.waitpid(pid, 0)
    teller.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(command: dict[str, Any], streams: list[int]) -> NoReturn:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    # As `python -m` has it.
    sys.path.insert(0, command["cwd"])
    sys.argv = [command["module"], *command["arguments"]]
    runpy.run_module(command["module"], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main(int(sys.argv[1]))
