"""Draw docs/images/terminal.svg: the terminal of a real run of the scraper in README.md, on a shop on this machine.

    .venv/bin/python docs/images/terminal.py

Needs tmux, whose screen is 80 columns wide. The shop has pages that fail at first and one that always fails.
"""

from __future__ import annotations

import asyncio
import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from longshore.demo.site import Site

HERE = Path(__file__).parent
SCRAPER = re.compile(r"```python file=shop\.py\n(.*?)```", re.DOTALL)
COLUMNS, ROWS = 80, 24
END = "the-run-has-ended"
LONGEST = 120.0


def tmux(session: str, *arguments: str) -> str:
    """Run a tmux command on a server of its own, and return its output."""
    command = ["tmux", "-L", session, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST).stdout  # noqa: S603


async def main() -> None:
    """Run the scraper in a terminal, and write the picture of its screen."""
    scraper = SCRAPER.search((HERE.parents[1] / "README.md").read_text(encoding="utf-8"))
    if scraper is None:
        sys.exit("README.md has no shop.py.")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "shop.py").write_text(scraper[1])
        async with Site(60, seconds=(0.01, 0.2)).served() as address:
            screen = await asyncio.to_thread(screen_of, Path(folder), address)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(screen.rstrip()))
    # Without the fonts of another site: the picture must need no network.
    picture = re.sub(r"@font-face \{.*?\n\s*\}\n", "", console.export_svg(title="longshore run"), flags=re.DOTALL)
    (HERE / "terminal.svg").write_text(picture, encoding="utf-8")


def screen_of(folder: Path, address: str) -> str:
    """Return the screen of the run after its end, with its colours."""
    session = f"longshore-{folder.name}"
    command = f"longshore run shop.py {address}/item/1 --items items.csv; tmux -L {session} wait-for -S {END}"
    # The prompt and the path of the command are those of a reader.
    path = shlex.quote(str(Path(sys.executable).parent))
    shell = f"PATH={path}:$PATH PS1='$ ' LONGSHORE_HOST_FIRST_RATE=50 bash --norc"
    tmux(session, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(folder), shell)
    try:
        tmux(session, "send-keys", f"clear; {command}", "Enter")
        tmux(session, "wait-for", END)
        screen = tmux(session, "capture-pane", "-e", "-p")
    finally:
        tmux(session, "kill-server")
    said = screen.rstrip().removesuffix("$").rstrip()
    return f"$ longshore run shop.py {address}/item/1 --items items.csv\n{said}"


if __name__ == "__main__":
    asyncio.run(main())
