"""A small adapter that speaks Ollama's routes, as a process: with scripted answers, or with a real small model."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.services.own_packages import python_with

FIX = "python -m tests.services.prepare --model"


class OllamaAdapter:
    """The adapter. With `answers`, a question that has the word gets its answer; without, the real model answers."""

    def __init__(self, folder: Path, answers: dict[str, Any] | None, *options: str) -> None:
        script = Path(__file__).with_name("ollama_routes.py")
        if answers is None:
            command = [str(python_with("model", FIX)), str(script), "0", "--gguf"]
        else:
            file = folder / "answers.json"
            file.write_text(json.dumps(answers))
            command = [sys.executable, str(script), "0", "--answers", str(file)]
        self._process = subprocess.Popen(
            [*command, *options], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        line = "started"
        while line and not line.startswith("ready "):
            line = self._process.stdout.readline()
        assert line, "the adapter did not start"
        self.url = f"http://127.0.0.1:{line.split()[1]}"

    def asked(self) -> int:
        """How many questions it was asked."""
        with urllib.request.urlopen(f"{self.url}/asked") as answer:
            return int(json.loads(answer.read())["asked"])

    def met(self) -> bool:
        """Return whether as many questions as `--together` says have waited at the same time."""
        with urllib.request.urlopen(f"{self.url}/asked") as answer:
            return bool(json.loads(answer.read())["met"])

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()
