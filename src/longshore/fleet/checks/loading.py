"""The handler file, imported in a process of its own: it may hang, print or crash without harm to the checks.

    python -m longshore.fleet.checks.loading FILE

says as JSON which kinds the file handles, or what is wrong with it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from longshore.errors import HandlerFileError
from longshore.fleet.checks.finding import Loaded, Plan
from longshore.fleet.supervisor import how_it_ended
from longshore.handlers.load import load_handlers
from longshore.handlers.partitions import partitions_in
from longshore.settings import export_dotenv

_BROWSER_LIBRARIES = ("playwright", "selenium", "pyppeteer", "nodriver", "undetected_chromedriver")


async def load_apart(plan: Plan) -> Loaded | None:
    """How the import of the plan's handler file goes; None where it names none. Cancelled, it leaves nothing behind."""
    if plan.handler_file is None:
        return None
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "longshore.fleet.checks.loading", str(plan.handler_file)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=plan.folder,
    )
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        return msgspec.json.decode(out, type=Loaded)
    except msgspec.DecodeError:
        end = how_it_ended(process.returncode)
        return Loaded(fault=f"{plan.handler_file}: the process that imported it {end}.")


def main() -> None:
    """Import the file that the command line names, and say how that went."""
    answer = os.dup(1)
    # What the file prints while it is imported must not get into the answer.
    os.dup2(2, 1)
    export_dotenv()
    try:
        handlers = load_handlers(Path(sys.argv[1]))
        brought = tuple(name for name in _BROWSER_LIBRARIES if name in sys.modules)
        loaded = Loaded(kinds=tuple(sorted(handlers)), browsers=brought, partitions=partitions_in(Path(sys.argv[1])))
    except HandlerFileError as error:
        loaded = Loaded(fault=_in_short(str(error)))
    os.write(answer, msgspec.json.encode(loaded))
    # Threads that the file started must not keep it.
    os._exit(0)


def _in_short(message: str) -> str:
    """The place and the error itself, without the way there."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) == 1 or lines[0].endswith(":"):
        return lines[0]
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(".") else f"{lines[0]}: {lines[-1]}"


if __name__ == "__main__":
    main()
