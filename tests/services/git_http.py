"""A real git server over HTTP for tests: `git http-backend` behind a small HTTP/1.1 server that asks for a password."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

USER, PASSWORD = "anna", "tide-and-time"  # a test server on loopback that lives for a minute


class GitHttpServer:
    """Serves the bare repositories of one folder, to those who know the password."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fail_with: int | None = None
        """Answer every request with this status, as a server in trouble does."""
        self.requests = 0
        self._arrived = threading.Condition()
        self._connections: list[socket.socket] = []
        self._serve(0)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def make(self, name: str) -> None:
        """Make an empty repository that may be pushed to."""
        path = str(self.folder / name)
        subprocess.run(["git", "init", "--quiet", "--bare", path], check=True)
        subprocess.run(["git", "--git-dir", path, "config", "http.receivepack", "true"], check=True)

    def url(self, name: str, *, user: str = USER, password: str = PASSWORD) -> str:
        """The queue URL of a repository."""
        return f"git+http://{user}:{password}@127.0.0.1:{self.port}/{name}"

    def wait_for_request(self, seen: int) -> None:
        """Return as soon as more requests than that have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self.requests > seen, timeout=30)

    def stop(self) -> None:
        """Stop answering; what is under way is cut off."""
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def start(self) -> None:
        """Answer again, on the same port."""
        until = time.monotonic() + 30
        while True:
            try:
                self._serve(self.port)
                return
            except OSError as error:
                # A `git http-backend` that is just being started holds a copy of the port until it is.
                if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                    raise

    def _serve(self, port: int) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner._answer(self)

            def do_POST(self) -> None:
                owner._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the parent's
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def process_request(self, request: Any, client_address: Any) -> None:
                owner._connections.append(request)
                super().process_request(request, client_address)

            def handle_error(self, request: object, client_address: object) -> None:
                return  # a client that was killed half-way is what the tests are about

        self._server = Server(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        with self._arrived:
            self.requests += 1
            self._arrived.notify_all()
        body = _body(request)
        if self.fail_with is not None:
            _send(request, self.fail_with, [], b"not now\n")
            return
        expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if request.headers.get("Authorization") != expected:
            _send(request, 401, [("WWW-Authenticate", 'Basic realm="queues"')], b"who are you?\n")
            return
        parts = urlsplit(request.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": request.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "REMOTE_USER": USER,
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False, cwd=self.folder
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [
            (name, value.strip()) for name, _, value in (line.partition(":") for line in head.decode().splitlines())
        ]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        _send(request, status, [pair for pair in headers if pair[0] != "Status"], content)


def _body(request: BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    body = b""
    while size := int(request.rfile.readline().partition(b";")[0], 16):
        body += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return body


def _send(request: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    request.send_response(status)
    for name, value in headers:
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)
