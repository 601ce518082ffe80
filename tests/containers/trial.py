"""The compose file with real containers: jobs, a killed worker, a killed database, more workers, and what is left."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.containers.podman import ROOT, Podman
from tests.services.postgres import free_port

PROJECT = "longshore-test"
RUN = "containers"
JOBS = 5000
_LOOK_SECONDS = 2.0
_PATIENCE_SECONDS = 900.0


class Trial:
    """One trial. Every check that fails ends it."""

    def __init__(self, podman: Podman) -> None:
        self._podman = podman
        self._folder = Path(tempfile.mkdtemp(prefix="longshore-containers-"))
        self._folder.chmod(0o755)
        shutil.copy(ROOT / "tests" / "containers" / "handlers" / "waiting.py", self._folder)
        (self._folder / "urls.txt").write_text("".join(f"https://example.org/{n}\n" for n in range(JOBS)))
        self._variables = {
            "POSTGRES_PASSWORD": "tide4and4time",
            "HANDLERS_FOLDER": str(self._folder),
            "HANDLERS_FILE": "waiting.py",
            "RUN": RUN,
            "STOP_GRACE_PERIOD": "30s",
            "SERVER_PORT": str(free_port()),
        }

    def run(self) -> None:
        """Start everything, disturb it, and check the end."""
        self.end()
        began = time.monotonic()
        self._up("postgres")
        self._until("PostgreSQL answers", lambda: self._healthy(self.names("postgres")[0]))
        self._up("keys", "server", "prometheus")
        self._until("the server answers", lambda: self._healthy(self.names("server")[0]))
        self._up("worker", scale=3)
        self._up("coordinator")
        self._until("the first 1,500 jobs are completed, the others wait", lambda: self._count("completed") >= 1500)
        for name in [*self.names("worker"), *self.names("server")]:
            self._check_locked_up(name)
        self._check("3 workers run", len(self.names("worker", running=True)) == 3)
        self._until("Prometheus scrapes them and the server", lambda: self._query('sum(up{job=~"longshore.*"})') == 4)

        before = self._count("completed")
        victim = self.names("worker")[0]
        self._podman("kill", "--signal=KILL", victim)
        database = self.names("postgres")[0]
        self._podman("kill", "--signal=KILL", database)
        self._until("the database is gone", lambda: not self._answers(database))
        self._until("a worker says so", lambda: not all(map(self._healthy, self.names("worker", running=True))))
        self._podman("start", database)
        self._until("the database is back", lambda: self._answers(database))
        (self._folder / "go-1").touch()
        self._until("the work goes on", lambda: self._count("completed") > before)
        print(f"   {before} jobs were completed when a worker and the database were killed")

        self._up("worker", scale=5)
        self._until("5 workers run", lambda: len(self.names("worker", running=True)) >= 5)
        self._until("all of them are healthy", lambda: all(map(self._healthy, self.names("worker", running=True))))
        (self._folder / "go-2").touch()
        self._until("every job is settled", lambda: self._count("completed") + self._count("failed") == JOBS)
        self._check_settled_once()
        self._check_metrics()
        coordinator = self.names("coordinator")[0]
        self._check("the coordinator saw a run that went well", self._podman("wait", coordinator).strip() == "0")
        self._check_drain()
        print(f"{JOBS} jobs in containers: {time.monotonic() - began:.0f} s with all of it")

    def end(self) -> None:
        """Remove the containers and the volumes of this project."""
        for name in self._podman("ps", "--all", "--format={{.Names}}").split():
            if name.startswith(PROJECT):
                self._podman("rm", "--force", "--volumes", "--time=0", name)
        for name in self._podman("volume", "ls", "--format={{.Name}}").split():
            if name.startswith(PROJECT):
                self._podman("volume", "rm", "--force", name)

    def names(self, service: str, *, running: bool = False) -> list[str]:
        """Return the names of the containers of a service, the first one first."""
        given = [] if running else ["--all"]
        found = self._podman(
            "ps", *given, "--format={{.Names}}", f"--filter=label=com.docker.compose.service={service}"
        )
        return sorted(name for name in found.split() if name.startswith(PROJECT))

    def _up(self, *services: str, scale: int | None = None) -> None:
        profiles = [f"--profile={name}" for name in ("worker", "coordinator", "monitoring")]
        scaled = [] if scale is None else [f"--scale={services[0]}={scale}"]
        options = ["--detach", "--no-build", "--no-recreate", "--no-deps", *scaled]
        self._podman.compose(
            f"--project-name={PROJECT}", *profiles, "up", *options, *services, variables=self._variables
        )

    def _check_locked_up(self, name: str) -> None:
        """The process is not root, and can write only where it should."""
        user = self._podman("exec", name, "id", "-u").strip()
        read_only = self._podman("inspect", "--format={{.HostConfig.ReadonlyRootfs}}", name).strip()
        writes = [path for path in ("/usr", "/opt/longshore", "/etc") if self._writes(name, path)]
        self._check(
            f"{name} runs as user {user}, with a read-only root", (user, read_only, writes) == ("10001", "true", [])
        )
        self._check(f"{name} can write into /data and /tmp", self._writes(name, "/data") and self._writes(name, "/tmp"))

    def _check_settled_once(self) -> None:
        counts = self._status()
        self._check(
            f"{JOBS} jobs completed, none failed, none left", counts["completed"] == JOBS and counts["remaining"] == 0
        )
        results = [json.loads(line) for line in self._longshore("export", RUN, "--format", "jsonl").splitlines()]
        self._check("each has one result", len({each["key"] for each in results}) == len(results) == JOBS)
        records = [json.loads(line) for line in self._longshore("export", RUN, "--records", "--bare").splitlines()]
        urls = {each["url"] for each in records}
        self._check("each has one record: none was settled twice", len(urls) == len(records) == JOBS)
        again = self._database("select count(*) from longshore.attempt")
        print(f"   {again} attempts ended with a lease that expired or with an error, and were repeated")

    def _check_metrics(self) -> None:
        of_server = 'longshore_queue_jobs{job="longshore-server",state="completed"}'
        self._until(f"Prometheus has {JOBS} completed jobs from the server", lambda: self._query(of_server) == JOBS)
        attempts = self._query('sum(longshore_attempts_total{outcome="completed"})')
        print(f"   {attempts:.0f} of them by workers that live, as Prometheus knows from them")
        rules = self._prometheus("/api/v1/rules")["data"]["groups"]
        self._check("the alert rules are loaded", sum(len(group["rules"]) for group in rules) > 10)

    def _check_drain(self) -> None:
        """`docker stop` lets a worker end by itself."""
        name = self.names("worker", running=True)[0]
        self._podman("stop", "--time=60", name)
        code = self._podman("inspect", "--format={{.State.ExitCode}}", name).strip()
        self._check(f"{name} ends by itself when it is stopped, exit code {code}", code == "0")

    def _count(self, state: str) -> int:
        try:
            return int(self._status()[state])
        except (SystemExit, ValueError, KeyError):
            return -1  # the database is down, or the run has no jobs yet

    def _status(self) -> Any:
        return json.loads(self._longshore("status", RUN, "--json"))

    def _longshore(self, *arguments: str) -> str:
        return self._podman("exec", self.names("server")[0], "longshore", *arguments)

    def _database(self, query: str) -> str:
        command = ["psql", "-h", "127.0.0.1", "-U", "longshore", "-At", "-c", query, "longshore"]
        password = f"--env=PGPASSWORD={self._variables['POSTGRES_PASSWORD']}"
        return self._podman("exec", password, self.names("postgres")[0], *command).strip()

    def _query(self, expression: str) -> float:
        try:
            found = self._prometheus(f"/api/v1/query?query={urllib.parse.quote(expression)}")["data"]["result"]
        except (SystemExit, ValueError):
            return -1.0
        return float(found[0]["value"][1]) if found else -1.0

    def _prometheus(self, path: str) -> Any:
        command = ["wget", "-q", "-O", "-", f"http://127.0.0.1:9090{path}"]
        return json.loads(self._podman("exec", self.names("prometheus")[0], *command))

    def _healthy(self, name: str) -> bool:
        return self._podman.succeeds("healthcheck", "run", name)

    def _answers(self, database: str) -> bool:
        return self._podman.succeeds("exec", database, "pg_isready", "-h", "127.0.0.1")

    def _writes(self, name: str, folder: str) -> bool:
        return self._podman.succeeds("exec", name, "/bin/sh", "-c", f"echo > {folder}/written && rm {folder}/written")

    def _until(self, what: str, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > until:
                self._check(f"{what} (waited {_PATIENCE_SECONDS:.0f} s)", False)
            time.sleep(_LOOK_SECONDS)
        self._check(what, True)

    def _check(self, what: str, holds: bool) -> None:
        print(f"{'ok' if holds else 'FAILED'}: {what}", flush=True)
        if not holds:
            self._explain()
            raise SystemExit(1)

    def _explain(self) -> None:
        print(self._podman("ps", "--all", check=False))
        for service in ("postgres", "keys", "server", "worker", "coordinator", "prometheus"):
            for name in self.names(service):
                print(f"--- {name}\n{self._podman('logs', '--tail=15', name, check=False)}", flush=True)
