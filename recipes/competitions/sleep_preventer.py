"""Keep a machine from going to sleep. Workers do this by themselves; the class is for scripts of your own."""

from __future__ import annotations

from contextlib import ExitStack

from longshore.system.keep_awake import awake


class SleepPreventer:
    """Keeps the machine awake between `start_prevention` and `stop_prevention`."""

    def __init__(self) -> None:
        self._held: ExitStack | None = None

    def start_prevention(self) -> bool:
        """Keep the machine awake from now on. Return False if the system offers no way to do that."""
        if self._held is None:
            failed: list[bool] = []
            held = ExitStack()
            held.enter_context(awake(True, lambda: failed.append(True)))
            self._held = held
            return not failed
        return True

    def stop_prevention(self) -> None:
        """Let the machine go to sleep again."""
        held, self._held = self._held, None
        if held is not None:
            held.close()
