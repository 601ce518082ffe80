"""The terminal that a process belongs to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal; False on Windows, where a closed console ends it."""
    if sys.platform == "win32":
        return False
    else:
        try:
            os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        except OSError:
            return False
        return True


@contextmanager
def control_keys_not_echoed(descriptor: int) -> Iterator[None]:
    """Inside the block, keep a terminal from writing ^C at the cursor. Windows never writes it."""
    if sys.platform == "win32":
        yield
    else:
        import termios

        try:
            # The system stops a background process that changes the terminal.
            before = termios.tcgetattr(descriptor) if os.tcgetpgrp(descriptor) == os.getpgrp() else None
        except (OSError, termios.error):
            before = None
        if before is None:
            yield
            return
        changed = [*before]
        changed[3] &= ~termios.ECHOCTL
        termios.tcsetattr(descriptor, termios.TCSANOW, changed)
        try:
            yield
        finally:
            # A terminal that was closed meanwhile needs no restoring.
            with suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSANOW, before)
