"""Draws the pictures of the manual from a real run: `python -m competitions.pictures FOLDER`.

It starts the replica, publishes, works, and writes what the terminal showed as SVG. Only the address of the temporary
repository is replaced.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_SHOWN = "https://github.com/team/competitions-queue.git"
_WIDTH = 118
_FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""The frame of a picture without the fonts of the web that Rich would name."""


def draw(shown: str, title: str, file: Path) -> None:
    """Write what a terminal showed as a picture."""
    console = Console(record=True, width=_WIDTH, file=open(os.devnull, "w", encoding="utf-8"), color_system="truecolor")  # noqa: SIM115, PTH123 (it lives as long as the console)
    console.print(Text.from_ansi(shown.rstrip()), soft_wrap=False)
    file.write_text(console.export_svg(title=title, theme=MONOKAI, code_format=_FRAME, unique_id=file.stem))


def shown_by(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command on a terminal, and return what it shows there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 (our own commands)
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass  # the command has ended
    process.wait()
    os.close(ours)
    return shown.decode().replace("\r", "").replace(f"git+file://{folder.resolve()}/queue.git", _SHOWN)


@contextmanager
def replica() -> Iterator[str]:
    """Serve the replica, and yield its address."""
    command = [sys.executable, "-m", "competitions.replica", "--port", "0", "--competitions", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None  # noqa: S101 (it is a pipe)
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


def main() -> None:
    """Draw all pictures into a folder."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    target = options.parse_args().folder.resolve()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, replica() as source:
        folder = Path(made)
        environment = os.environ | {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "GITHUB_REPO_URL": str(folder / "queue.git"),
            "COMPETITIONS_SOURCE": source,
            "WORKER_ID": "office-laptop-2",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "LONGSHORE_POLL_INTERVAL": "2",
        }
        git = ["git", "--git-dir", "queue.git"]
        host, worker = ([sys.executable, "-m", f"competitions.{name}"] for name in ("host", "worker"))
        subprocess.run(["git", "init", "--quiet", "--bare", "queue.git"], cwd=folder, check=True)  # noqa: S607
        shown_by([*host, "publish"], folder, environment)
        work = shown_by([*worker, "--max-work", "2"], folder, environment)
        draw(work, "python -m competitions.worker --max-work 2", target / "worker.svg")
        idle = shown_by([*worker, "--max-failures", "3"], folder, environment)
        draw(idle, "python -m competitions.worker --max-failures 3", target / "idle.svg")
        draw(shown_by([*host, "kpis"], folder, environment), "python -m competitions.host kpis", target / "kpis.svg")
        log = shown_by([*git, "--no-pager", "log", "--format=%s", "longshore-1"], folder, environment)
        draw(log, "the commits of the queue", target / "commits.svg")


if __name__ == "__main__":
    main()
