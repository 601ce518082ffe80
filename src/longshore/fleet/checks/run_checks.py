"""All checks at once. Each has a deadline, none can take another down, and none ends in a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from longshore.errors import LongshoreError, SettingsError
from longshore.fleet.checks import machine, network, project
from longshore.fleet.checks.finding import (
    CheckContext,
    CheckPlan,
    CheckVerdict,
    Finding,
    LoadedHandlers,
    NoSettingsError,
    cause_and_fix,
)
from longshore.fleet.checks.load_handlers import load_apart
from longshore.observe.masking import mask_text
from longshore.settings import TABLE, Settings, resolve

DEADLINE = 20.0
"""Seconds for one check."""

Check = Callable[[CheckContext], Awaitable[Finding]]

CHECKS: Mapping[str, Check] = {
    "settings": project.check_settings,
    ".env": project.check_dotenv,
    "handlers": project.check_handlers,
    "queue": network.check_queue,
    "partitions": project.check_partitions,
    "proxies": project.check_proxies,
    "browser": machine.check_browser,
    "tor": machine.check_tor,
    "vpn": network.check_vpn,
    "network": network.check_network,
    "git": machine.check_git,
    "disk": machine.check_disk,
    "memory": machine.check_memory,
    "clock": machine.check_clock,
}
"""Every check by its name, in the order they are shown."""


async def run_checks(
    plan: CheckPlan, *, deadline: float = DEADLINE, loading: asyncio.Future[LoadedHandlers | None] | None = None
) -> list[Finding]:
    """Carry out every check, all at once, and return what each found, in the order of `CHECKS`.

    Who needs to know what the handler file says may give its `load_apart`, under way; it is over when this returns. It
    changes nothing but what opening a queue changes: a schema that is out of date is brought up to date.
    """
    settings, faults = readable_settings(plan)
    loading = loading or asyncio.ensure_future(load_apart(plan))
    scene = CheckContext(plan, settings, tuple(faults), loading)
    try:
        return await asyncio.gather(*(_carried_out(name, check, scene, deadline) for name, check in CHECKS.items()))
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)


async def _carried_out(name: str, check: Check, scene: CheckContext, deadline: float) -> Finding:
    try:
        async with asyncio.timeout(deadline):
            return await check(scene)
    except TimeoutError:
        what = f"The check did not end within {deadline:g} s."
        return Finding(
            name, CheckVerdict.FAIL, what, "See whether what it asks is overloaded or out of reach, and repeat."
        )
    except NoSettingsError as error:
        return Finding(name, CheckVerdict.SKIPPED, str(error))
    except LongshoreError as error:
        return Finding(name, CheckVerdict.FAIL, *cause_and_fix(error))
    except Exception as error:  # noqa: BLE001  the boundary of a check: whatever it is becomes its finding
        what = f"The check itself failed: {type(error).__name__}: {mask_text(str(error))}"
        return Finding(
            name, CheckVerdict.FAIL, what, "This is a fault of Longshore: send its makers `doctor --report`."
        )


def readable_settings(plan: CheckPlan) -> tuple[Settings | None, list[str]]:
    """The settings, and all that is wrong with them. Each that is wrong has its default, so that the rest is known."""
    try:
        return resolve(plan.said, folder=plan.folder), []
    except SettingsError as error:
        first = str(error)
    defaults = {name: setting.default for name, setting in TABLE.items()}
    sound: dict[str, Any] = dict(plan.said)
    faults = []
    for name in TABLE:
        # With all others at their default, what is refused is this one.
        alone = {**defaults, name: plan.said.get(name)}
        try:
            resolve(alone, folder=plan.folder)
        except SettingsError as error:
            faults.append(str(error))
            sound[name] = defaults[name]
    try:
        return resolve(sound, folder=plan.folder), faults or [first]
    except SettingsError:
        return None, list(dict.fromkeys([first, *faults]))
