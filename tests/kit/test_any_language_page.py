"""The transcript in docs/any-language.md is run against a real server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.kit.task_server import TaskServer, clean_environment
from tests.services.programs import needs

PAGE = Path(__file__).parents[2] / "docs" / "any-language.md"


def test_the_transcript_runs(server: TaskServer) -> None:
    needs("curl", "jq")
    block = re.compile(r"^```sh by-hand transcript\n(.*?)^```\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    blocks = block.findall(PAGE.read_text())
    assert len(blocks) >= 4
    script = "\n".join(f"{command}\necho '---'" for command, _ in blocks)
    environment = clean_environment() | {"TASKMANAGER_API_URL": server.url, "LONGSHORE_API_KEY": server.key}
    command_line = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command_line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for answered, (command, shown) in zip(done.stdout.split("---\n"), blocks, strict=False):
        # Ids, tokens and times differ; the shape is the one that the page shows.
        assert re.findall(r'"(\w+)":', answered) == re.findall(r'"(\w+)":', shown), command
