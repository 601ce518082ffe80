"""A Prometheus on loopback that scrapes what a test tells it, every second."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services.postgres import free_port
from tests.services.programs import needs
from tests.waiting import wait_until

_CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
{targets}
"""
_TARGET = """
  - job_name: {name}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
_WITH_KEY = "    authorization: {{credentials_file: {key}}}\n"


class Prometheus:
    """A Prometheus that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> dict[str, float]:
        """The value of each series, by the values of its labels without those of the target."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        own = {"__name__", "job", "instance"}
        return {
            ",".join(value for name, value in sorted(each["metric"].items()) if name not in own): float(
                each["value"][1]
            )
            for each in answer["data"]["result"]
        }

    def firing(self) -> list[dict[str, str]]:
        """The labels of each alert that fires now."""
        alerts = self._get("/api/v1/alerts")["data"]["alerts"]
        return [each["labels"] for each in alerts if each["state"] == "firing"]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=10):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=10) as answer:
            return json.load(answer)


def _labels(metric: Mapping[str, str]) -> str:
    own = {"__name__", "job", "instance"}
    return ",".join(value for name, value in sorted(metric.items()) if name not in own)


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, int], keys: Mapping[str, Path], rules: str) -> Iterator[Prometheus]:
    """Scrape these ports on loopback, by job; `keys` are files with the bearer token of a job. `rules` is YAML."""
    needs("prometheus")
    (folder / "rules.yml").write_text(rules)
    listed = ""
    for name, port in targets.items():
        listed += _TARGET.format(name=name, port=port)
        listed += _WITH_KEY.format(key=keys[name]) if name in keys else ""
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(rules=folder / "rules.yml", targets=listed))
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'series'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        running = Prometheus(port)
        wait_until(lambda: process.poll() is not None or running.is_ready())
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        yield running
    finally:
        process.kill()
        process.wait()
