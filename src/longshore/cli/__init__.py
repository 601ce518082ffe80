"""The command line: one file a verb. Here is how every command begins and ends.

Exit codes: 0 is success; 1 means that something failed, or the queue cannot do it; 2 that the command cannot be carried
out as given; 130 that it was interrupted; 141 that nobody reads its output any more.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from longshore.errors import LongshoreError, SettingsError, UsageError
from longshore.system.signals import hangup_signal
from longshore.ui.exit_codes import INTERRUPTED, OUTPUT_CLOSED
from longshore.ui.streams import make_usable


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command and return its exit code. Whatever goes wrong ends in one message on standard error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    supervised = "--lifeline" in given
    if supervised:
        _hear_no_hangup(_unheard)
    make_usable()
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        return _end(given)
    finally:
        signal.signal(signal.SIGINT, before)
        _let_go_of_output()
        if supervised:
            # The interpreter takes handlers down before it is gone, and leaves this one standing.
            _hear_no_hangup(signal.SIG_IGN)


def _end(given: list[str]) -> int:
    import typer

    from longshore.cli.app import command

    try:
        whole = command(with_values="--help" in given or "-h" in given)
        _warn(given)
        # Not through its `main`, which has ends of its own for Ctrl-C and a closed pipe.
        with whole.make_context("longshore", given or ["--help"]) as context:
            code = whole.invoke(context)
        _flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return OUTPUT_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", INTERRUPTED, given)
    except typer.Exit as leave:
        return leave.exit_code
    except typer.TyperException as error:
        message = error.format_message().rstrip(".")
        return _say(f"{message}. See {_program()} {_verb(error)}--help." if message else "", 2, given)
    except LongshoreError as error:
        return _say(str(error), error.exit_code, given)
    except Exception as error:  # noqa: BLE001  the last boundary: an error nobody expected still ends in one message
        hint = "" if _debugging(given) else " This is a fault of Longshore; --debug shows where it came from."
        return _say(f"{type(error).__name__}: {error}.{hint}", 1, given)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"Standard output cannot be written to: {error.strerror}.") from error


def _let_go_of_output() -> None:
    """What could not be written is not tried once more by the interpreter at its end, which would complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str, code: int, given: list[str]) -> int:
    if _debugging(given):
        traceback.print_exc()
    if message:
        from longshore.ui.words import printable

        # It may quote anything; its own lines are its own.
        shown = "\n".join(map(printable, message.split("\n")))
        print(f"longshore: {shown}", file=sys.stderr)  # noqa: T201
    return code


def _warn(given: list[str]) -> None:
    from longshore.settings import unknown_variables

    # A worker that was started by another command has the same environment: that one has said it.
    if "--lifeline" not in given:
        with suppress(SettingsError):
            for sentence in unknown_variables():
                print(f"longshore: {sentence}", file=sys.stderr)  # noqa: T201


def _verb(error: Exception) -> str:
    """The verb that was refused, with a space behind it; nothing where it was none."""
    context = getattr(error, "ctx", None)
    return f"{context.info_name} " if context is not None and context.parent is not None else ""


def _debugging(given: list[str]) -> bool:
    from longshore.settings import resolve

    try:
        return "--debug" in given or resolve().debug
    except LongshoreError:
        return False


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    # asyncio leaves a handler of one's own in place. Its own would wait for a blocking read of standard input to end.
    raise KeyboardInterrupt


def _hear_no_hangup(instead: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """A supervisor passes hangups on to its workers: one that is starting or leaving must not die of it.

    Not ignored at the start: what is ignored then was ignored by whoever started it (`nohup`), and stays so.
    """
    number = hangup_signal()
    if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, instead)


def _unheard(_signal: int, _frame: FrameType | None) -> None:
    """It asks for the settings to be read, which a worker that starts is about to do."""


def _program() -> str:
    from longshore.ui.program import program

    return program()
