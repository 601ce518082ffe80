"""The commands send OpenTelemetry traces to a collector, here one of our own on loopback."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


class Receiver(ThreadingHTTPServer):
    """Takes spans as a collector of OpenTelemetry does, on loopback."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        owner.spans += scope.spans
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is Python's)
                return

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


def test_the_commands_send_one_trace_of_a_job_from_two_processes(shell: Shell) -> None:
    receiver = Receiver()
    try:
        variables = {
            "LONGSHORE_TRACES": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{receiver.server_address[1]}",
        }
        urls = shell.urls(2)
        done = shell("submit", "page", "--urls-file", urls, "--run", "r", stdin=None, **variables)
        assert done.returncode == 0, done.stderr
        done = shell("work", "pages.py", "--run", "r", "--until-done", stdin=None, **variables)
        assert done.returncode == 0, done.stderr
    finally:
        receiver.shutdown()
        receiver.server_close()
    by_name: dict[str, list[Any]] = {}
    for each in receiver.spans:
        by_name.setdefault(each.name, []).append(each)
    assert {name: len(found) for name, found in by_name.items() if name not in ("claim", "settle")} == {
        "submit": 1,
        "submit page": 2,
        "attempt page": 2,
    }
    assert {each.trace_id for each in by_name["submit page"]} == {each.trace_id for each in by_name["attempt page"]}
    ids = {each.span_id for each in by_name["submit page"]}
    assert {each.parent_span_id for each in by_name["attempt page"]} == ids
    assert {link.span_id for each in by_name["claim"] for link in each.links} == ids
    attempts = {each.span_id for each in by_name["attempt page"]}
    assert {link.span_id for each in by_name["settle"] for link in each.links} == attempts
