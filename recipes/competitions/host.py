"""What the host does: publish competitions, collect results, archive, and look how the fleet does.

    python -m competitions.host publish|collect|archive|cleanup|kpis --repo-url URL

`publish` reads the list of competitions from the site (`--source`, or `COMPETITIONS_SOURCE`). The other commands are
those of `longshore` with a run and a queue filled in, and every other command of `longshore` works on this queue, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict

import longshore
from competitions.kpis import kpis
from competitions.pages import Link, competition_id_of, read_front
from competitions.scraper import read
from competitions.worker import KIND, queue_url
from longshore import LongshoreError, StatusError, new_job
from longshore.cli import main as longshore_command
from longshore.errors import UsageError
from longshore.job import NewJob
from longshore.settings import DEFAULT, export_dotenv, resolve

RUN = "competitions"


class Requests:
    """Reads pages with one request after the other: the list of competitions is short."""

    page_source = ""

    def get(self, url: str) -> None:
        """Open a page, as `Driver.get`."""
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"'{url}' is no address of a site: it begins with https://")
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 (its scheme is checked)
                charset = answer.headers.get_content_charset() or "utf-8"
                # As browsers do.
                charset = "windows-1252" if charset == "iso-8859-1" else charset
                self.page_source = answer.read().decode(charset, "replace")
        except urllib.error.HTTPError as error:
            raise StatusError(url, error.code) from error
        except OSError as error:
            raise longshore.ConnectionFailedError(f"{url} does not answer: {error}") from error

    def wait(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def competitions_at(source: str) -> Iterator[NewJob]:
    """Yield a job for each competition that the site lists."""
    driver, following = Requests(), f"{source.rstrip('/')}/competitions"
    while following:
        links, after = read(driver, following, lambda html, at=following: read_front(html, at))  # type: ignore[misc]
        yield from map(work_order, links)
        following = after or ""


def work_order(link: Link) -> NewJob:
    """Return the job of a competition. Its name is the same at every publication, so none is published twice."""
    competition_id = competition_id_of(link.url)
    name = f"comp_{competition_id}_{hashlib.sha256(link.url.encode()).hexdigest()[:8]}"
    payload = {"competition_id": competition_id, "name": link.text, "url": link.url}
    return new_job(KIND, payload, run=RUN, key=name)


def main() -> int:
    """Carry out a command, and return its exit code."""
    export_dotenv()
    given = _options().parse_args()
    try:
        settings = resolve({"queue": None if given.repo_url is None else queue_url(given.repo_url)})
        if settings.source("queue") == DEFAULT:
            raise UsageError("Which repository has the work? Give --repo-url URL, or set GITHUB_REPO_URL in .env.")
        return _carry_out(given, queue_url(settings.queue))
    except LongshoreError as error:
        print(f"{error}", file=sys.stderr)
        return error.exit_code


def _carry_out(given: argparse.Namespace, queue: str) -> int:
    match given.command:
        case "publish":
            if not given.source:
                raise UsageError("Which site? Give --source URL, or set COMPETITIONS_SOURCE in .env.")
            done = longshore.submit(KIND, list(competitions_at(given.source)), run=given.run, queue=queue)
            print(f"Published {done.submitted} competitions; {done.duplicates} were published before.")
        case "collect":
            follow = ["--follow"] if given.follow else []
            return _longshore(queue, "collect", given.run, "--into", given.into, *follow)
        case "archive":
            return _longshore(queue, "archive", *(["--stats"] if given.stats else ["--older-than", given.older_than]))
        case "cleanup":
            return _longshore(queue, "prune", "--state", "completed", "--older-than", f"{given.days}d", "--yes")
        case _:
            found = kpis(given.run, queue)
            print(json.dumps(asdict(found)) if given.json else "\n".join(found.lines()))
    return 0


def _longshore(queue: str, *arguments: str) -> int:
    # The queue goes by the environment: no process shows its login among its arguments.
    os.environ["LONGSHORE_QUEUE"] = queue
    return longshore_command(arguments)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m competitions.host", description="Host the work on competitions.")
    commands = options.add_subparsers(dest="command", required=True, metavar="COMMAND")
    publish = commands.add_parser("publish", help="publish a job for each competition that the site lists")
    publish.add_argument("--source", default=os.environ.get("COMPETITIONS_SOURCE"), help="the site")
    collect = commands.add_parser("collect", help="append the results to a file, and archive them past the bounds")
    collect.add_argument("--into", default="results", metavar="DIR", help="the folder (results)")
    collect.add_argument("--follow", action="store_true", help="go on until all is done")
    archive = commands.add_parser("archive", help="compress completed jobs and drop the history")
    archive.add_argument("--older-than", default="30d", metavar="AGE", help="how old they are at least (30d)")
    archive.add_argument("--stats", action="store_true", help="show what the archive has, and change nothing")
    cleanup = commands.add_parser("cleanup", help="remove old completed jobs, archived or not, for good")
    cleanup.add_argument("--days", type=int, default=90, help="how old they are at least (90)")
    figures = commands.add_parser("kpis", help="completion, success, claims, utilisation")
    figures.add_argument("--json", action="store_true")
    for command in (publish, collect, archive, cleanup, figures):
        command.add_argument("--repo-url", metavar="URL", help="the repository with the work (GITHUB_REPO_URL)")
        command.add_argument("--run", default=RUN, help="the name of the run (competitions)")
    return options


if __name__ == "__main__":
    sys.exit(main())
