"""Runs all checks at the same time. Each has a deadline, and an error in one becomes its finding."""

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
from longshore.masking import mask_text
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
    "sleep": machine.check_sleep,
}
"""Every check by its name, in the order they are shown."""


async def run_checks(
    plan: CheckPlan, *, deadline: float = DEADLINE, loading: asyncio.Future[LoadedHandlers | None] | None = None
) -> list[Finding]:
    """Run every check at the same time and return the findings, in the order of `CHECKS`.

    A caller that needs the result of `load_apart` too may pass it as a running task; it has ended when this returns.
    The checks change nothing, except that opening a queue upgrades an outdated schema.
    """
    settings, faults = readable_settings(plan)
    loading = loading or asyncio.ensure_future(load_apart(plan))
    context = CheckContext(plan, settings, tuple(faults), loading)
    try:
        return await asyncio.gather(*(_run_check(name, check, context, deadline) for name, check in CHECKS.items()))
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)


async def _run_check(name: str, check: Check, context: CheckContext, deadline: float) -> Finding:
    try:
        async with asyncio.timeout(deadline):
            return await check(context)
    except TimeoutError:
        what = f"The check did not end within {deadline:g} s."
        return Finding(
            name,
            CheckVerdict.FAIL,
            what,
            "Check whether the server or disk is overloaded or unreachable, and run the checks again.",
        )
    except NoSettingsError as error:
        return Finding(name, CheckVerdict.SKIPPED, str(error))
    except LongshoreError as error:
        return Finding(name, CheckVerdict.FAIL, *cause_and_fix(error))
    except Exception as error:  # noqa: BLE001  the boundary of a check: any error becomes its finding
        what = f"The check itself failed: {type(error).__name__}: {mask_text(str(error))}"
        return Finding(
            name, CheckVerdict.FAIL, what, "This is a bug in Longshore: report it with the output of `doctor --report`."
        )


def readable_settings(plan: CheckPlan) -> tuple[Settings | None, list[str]]:
    """Return the settings and their errors. A wrong setting has its default, so that the others can be used."""
    try:
        return resolve(plan.given, folder=plan.folder), []
    except SettingsError as error:
        first = str(error)
    defaults = {name: setting.default for name, setting in TABLE.items()}
    valid: dict[str, Any] = dict(plan.given)
    faults = []
    for name in TABLE:
        # All other settings have their default, so an error is about this one.
        alone = {**defaults, name: plan.given.get(name)}
        try:
            resolve(alone, folder=plan.folder)
        except SettingsError as error:
            faults.append(str(error))
            valid[name] = defaults[name]
    try:
        return resolve(valid, folder=plan.folder), faults or [first]
    except SettingsError:
        return None, list(dict.fromkeys([first, *faults]))
