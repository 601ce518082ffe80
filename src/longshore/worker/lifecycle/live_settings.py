"""Settings that change while a worker runs: `.env` and `longshore.toml` are read again when they change, or on SIGHUP.

Settings marked `live` in the table take effect; for the others the log says that they need a restart. A file with an
invalid value, or one that is not completely written, changes nothing. Command line options still take precedence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from longshore.clock import Clock
from longshore.errors import SettingsError
from longshore.settings import DOTENV, TABLE, TOML, Settings, check_finished, show
from longshore.system.first_of import first_of

_LOOK_SECONDS = 1.0
_LOOKS = 5
"""After this many looks a file is read even if it has changed at each of them."""

log = structlog.get_logger()

Stamp = tuple[tuple[int, int, int] | None, ...]


class LiveSettings:
    """The settings of a running worker, and how to read them again."""

    def __init__(self, read: Callable[[], Settings], folder: Path | None = None) -> None:
        """`read` resolves the settings from the files in `folder` and all other sources, now and after each change.

        Raises `SettingsError` if they are invalid now.
        """
        self._read = read
        self._files = tuple((folder or Path()) / name for name in (DOTENV, TOML))
        # Before the files are read, so that a change in between is noticed.
        self._known = self._seen = self._stamp()
        self.settings = read()
        """The settings in effect."""
        self._logged: dict[str, object] = {}
        self._refused = ""
        self._changing = 0
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Read the settings again now, changed or not."""
        self._asked.set()

    async def watch(self, clock: Clock, apply: Callable[[Settings], None]) -> None:
        """Look at the files every second, until cancelled. `apply` is called with changed settings."""
        while True:
            await first_of(clock.sleep(_LOOK_SECONDS), self._asked.wait())
            if self._asked.is_set():
                self._asked.clear()
                self._known = self._seen = self._stamp()
                self._changing = 0
                self._refused = ""
                if not self._reread(apply):
                    log.info("Settings read again: nothing has changed")
            elif self._have_changed():
                self._reread(apply)

    def _have_changed(self) -> bool:
        """Return whether the files differ from those last read, and are not being written just now.

        An editor empties a file before it fills it. A file that is the same at two looks in a row counts as complete;
        one that changes at every look is read after `_LOOKS` looks.
        """
        stamp, before = self._stamp(), self._seen
        self._seen = stamp
        if stamp == self._known:
            self._changing = 0
            return False
        self._changing += 1
        if stamp != before and self._changing < _LOOKS:
            return False
        self._known = stamp
        self._changing = 0
        return True

    def _stamp(self) -> Stamp:
        stamps: list[tuple[int, int, int] | None] = []
        for file in self._files:
            try:
                found = file.stat()
            except OSError:
                stamps.append(None)
            else:
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamps)

    def _reread(self, apply: Callable[[Settings], None]) -> bool:
        """Return whether anything was logged."""
        try:
            check_finished(self._files[0])
            new = self._read()
        except SettingsError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                log.warning(f"Settings not changed, the old ones stay: {error}")
            return True
        self._refused = ""
        changed = [name for name in TABLE if getattr(new, name) != getattr(self.settings, name)]
        live = [name for name in changed if TABLE[name].live]
        late = [name for name in changed if not TABLE[name].live and self._logged.get(name) != getattr(new, name)]
        if live:
            log.info(f"Settings changed: {', '.join(self._change(name, new) for name in live)}")
            self.settings = self.settings.with_changes(new, live)
            apply(self.settings)
        if late:
            log.warning(f"Needs a restart: {', '.join(self._change(name, new) for name in late)}")
        self._logged = {name: getattr(new, name) for name in changed if not TABLE[name].live}
        return bool(live or late)

    def _change(self, name: str, new: Settings) -> str:
        before = self.settings.shown(name)
        return f"{name} {before or 'none'} → {show(getattr(new, name)) or 'none'} ({new.source(name).level})"
