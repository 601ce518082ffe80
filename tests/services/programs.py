"""Programs that tests need: `prepare` installs them where it can."""

from __future__ import annotations

import shutil

from tests.services.needing import needed
from tests.services.postgres import ServiceMissingError


def needs(*programs: str) -> None:
    """Skip the test on a laptop without one of these programs; fail in CI."""
    with needed():
        if missing := [program for program in programs if shutil.which(program) is None]:
            raise ServiceMissingError(f"{', '.join(missing)} is not installed. Fix: make services")
