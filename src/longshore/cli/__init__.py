"""The command line, one file a verb. This module starts and ends every command.

Exit codes: 0 is success; 1 means that something failed, or the queue cannot do it; 2 that the command cannot be carried
out as given; 130 that it was interrupted; 141 that the reader of its output is gone.
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
    """Carry out a command and return its exit code. Any error ends in one message on standard error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    supervised = "--lifeline" in given
    if supervised:
        _survive_hangup(_ignore_hangup)
    make_usable()
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        return _end(given)
    finally:
        signal.signal(signal.SIGINT, before)
        _discard_output()
        if supervised:
            # The interpreter removes Python handlers before it ends, but an ignored signal stays ignored.
            _survive_hangup(signal.SIG_IGN)


def _end(given: list[str]) -> int:
    import typer

    from longshore.cli.app import command
    from longshore.settings import export_api_key

    try:
        export_api_key()
        root = command(with_values="--help" in given or "-h" in given)
        _warn(given)
        # Not through Typer's `main`, which handles Ctrl-C and a closed pipe in its own way.
        with root.make_context("longshore", given or ["--help"]) as context:
            code = root.invoke(context)
        _flush()
        ended = code if isinstance(code, int) else 0
        if given[:1] in _WORKING:
            _note_failure(given, ended, "")
        return ended
    except BrokenPipeError:
        return OUTPUT_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", INTERRUPTED, given)
    except typer.Exit as leave:
        return leave.exit_code
    except SystemExit as leave:
        # Rich, which prints the help, leaves with 1 when the reader of its output is gone.
        if isinstance(leave.__context__, BrokenPipeError):
            return OUTPUT_CLOSED
        raise
    except typer.TyperException as error:
        message = error.format_message().rstrip(".")
        return _say(f"{message}. See {_program()} {_verb(error)}--help." if message else "", 2, given)
    except LongshoreError as error:
        return _say(str(error), error.exit_code, given)
    except Exception as error:  # noqa: BLE001  the last boundary: an unexpected error still ends in one message
        hint = "" if _debugging(given) else " This is a fault of Longshore; --debug shows the traceback."
        return _say(f"{type(error).__name__}: {error}.{hint}", 1, given)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"Standard output cannot be written to: {error.strerror}.") from error


def _discard_output() -> None:
    """Discard output that cannot be written: the interpreter would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str, code: int, given: list[str]) -> int:
    if _debugging(given):
        traceback.print_exc()
    if message:
        from longshore.system.printable import printable

        # The message may quote text with control characters; its own line breaks are kept.
        shown = "\n".join(map(printable, message.split("\n")))
        print(f"longshore: {shown}", file=sys.stderr)  # noqa: T201
        _note_failure(given, code, shown)
    return code


_WORKING = (["run"], ["start"], ["work"], ["fleet"])
"""The verbs whose exit code other than 0 is a failure. For others it is an answer: a doctor's finding, for example."""


def _note_failure(given: list[str], code: int, message: str) -> None:
    """Keep the command for `longshore doctor --report`, if it failed and a person gave it."""
    if code in (0, INTERRUPTED, OUTPUT_CLOSED) or "--lifeline" in given or given[:1] == ["doctor"]:
        return
    from longshore.cli.failed_command import note_failed_command

    note_failed_command(given, code, message)


def _warn(given: list[str]) -> None:
    from longshore.settings import unknown_variables

    # A worker has the environment of the command that started it, and that command has printed the warning.
    if not {"--lifeline", "--published"}.intersection(given):
        with suppress(SettingsError):
            for sentence in [*unknown_variables(), *_shown_secrets(given)]:
                print(f"longshore: {sentence}", file=sys.stderr)  # noqa: T201


def _shown_secrets(given: list[str]) -> list[str]:
    from longshore.url import mask_url

    arguments = (argument.partition("=")[2] if argument.startswith("--") else argument for argument in given)
    return [
        f"every user of this machine can read the password in '{mask_url(argument)}' with ps. "
        "Set it in the environment (LONGSHORE_QUEUE) or in .env instead."
        for argument in arguments
        if "://" in argument and "@" in argument and mask_url(argument) != argument
    ]


def _verb(error: Exception) -> str:
    """Return the verb of the refused command with a space after it; empty if it had no verb."""
    context = getattr(error, "ctx", None)
    return f"{context.info_name} " if context is not None and context.parent is not None else ""


def _debugging(given: list[str]) -> bool:
    from longshore.settings import resolve

    try:
        return "--debug" in given or resolve().debug
    except LongshoreError:
        return False


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    # asyncio keeps a custom handler. Its own handler would wait until a blocking read of standard input has ended.
    raise KeyboardInterrupt


def _survive_hangup(instead: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Keep a SIGHUP from ending this worker while it starts or leaves: a supervisor sends its own on to its workers.

    At the start the signal gets a handler and is not ignored: a worker takes an ignored SIGHUP for the work of `nohup`,
    and leaves it ignored.
    """
    number = hangup_signal()
    if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, instead)


def _ignore_hangup(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: SIGHUP asks for the settings to be read again, and a starting worker is about to read them."""


def _program() -> str:
    from longshore.ui.program import program

    return program()
