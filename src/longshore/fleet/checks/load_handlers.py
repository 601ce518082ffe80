"""Import the handler file in a separate process: it may hang, print or crash without harm to the checks.

    python -m longshore.fleet.checks.load_handlers FILE

prints as JSON which kinds the file handles, or what is wrong with it.
"""

from __future__ import annotations

import ast
import asyncio
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from longshore.errors import HandlerFileError
from longshore.fleet.checks.finding import CheckPlan, LoadedHandlers
from longshore.fleet.supervise.supervisor import how_it_ended
from longshore.observe.structlog_plain import import_structlog_alone
from longshore.settings import export_dotenv

if TYPE_CHECKING:
    from longshore.handlers.handler import Handler

_PARTITIONS = re.compile(r"PARTITIONS\s*(:[^=]*)?=\s*")
_LONGEST_LIST = 200
_BROWSER_LIBRARIES = ("playwright", "selenium", "pyppeteer", "nodriver", "undetected_chromedriver")


async def load_apart(plan: CheckPlan) -> LoadedHandlers | None:
    """Import the plan's handler file in a child process and return the result; None if the plan names no file.

    If this is cancelled, the child process is killed.
    """
    if plan.handler_file is None:
        return None
    process = await asyncio.create_subprocess_exec(
        *(plan.python or sys.executable, "-m", "longshore.fleet.checks.load_handlers", str(plan.handler_file)),
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
        return msgspec.json.decode(out, type=LoadedHandlers)
    except msgspec.DecodeError:
        end = how_it_ended(process.returncode)
        return LoadedHandlers(fault=f"{plan.handler_file}: the process that imported it {end}.")


def main() -> None:
    """Import the file that the command line names, and write the result to standard output."""
    # Before the imports below load structlog with all its optional parts.
    import_structlog_alone()
    from longshore.handlers.load import load_handlers
    from longshore.handlers.partition_names import partitions_in

    answer = os.dup(1)
    # Output that the file prints during the import must not mix with the answer.
    os.dup2(2, 1)
    export_dotenv()
    try:
        handlers = load_handlers(Path(sys.argv[1]))
        libraries = tuple(name for name in _BROWSER_LIBRARIES if name in sys.modules)
        if any("browser" in _names_in(handler) for handler in handlers.values()):
            libraries = ("kit.browser", *libraries)
        loaded = LoadedHandlers(
            kinds=tuple(sorted(handlers)), browsers=libraries, partitions=partitions_in(Path(sys.argv[1]))
        )
    except HandlerFileError as error:
        loaded = LoadedHandlers(fault=_in_short(str(error)), partitions=_written_partitions(Path(sys.argv[1])))
    os.write(answer, msgspec.json.encode(loaded))
    # Exit at once: threads that the file started must not keep the process alive.
    os._exit(0)


def _names_in(handler: Handler) -> tuple[str, ...]:
    """Return the names that a handler's own code uses."""
    code = getattr(handler.function, "__code__", None)
    return () if code is None else code.co_names


def _written_partitions(file: Path) -> tuple[str, ...]:
    """Return the `PARTITIONS` of a file that cannot be imported, if they are a plain list; else nothing.

    So a table that lacks one of them is reported together with the error in the file.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return ()
    first = next((number for number, line in enumerate(lines) if _PARTITIONS.match(line)), len(lines))
    # The statement ends with the first line that completes it; the error may be in the lines after it.
    for last in range(first + 1, min(first + _LONGEST_LIST, len(lines)) + 1):
        try:
            names = ast.literal_eval(_PARTITIONS.sub("", "\n".join(lines[first:last]), count=1))
        except SyntaxError:
            continue
        except ValueError:
            return ()
        plain = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        return tuple(names) if plain else ()
    return ()


def _in_short(message: str) -> str:
    """Return the first and the last line of an import error: the location and the error, without the traceback."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) == 1 or lines[0].endswith(":"):
        return lines[0]
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(".") else f"{lines[0]}: {lines[-1]}"


if __name__ == "__main__":
    main()
