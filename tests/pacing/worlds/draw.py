"""Random worlds: the seed draws the kind of host, its limits, the network and the processes."""

from __future__ import annotations

import math
import random
from typing import Any

from tests.pacing.worlds.limiters import (
    Banning,
    Bucket,
    Capricious,
    Changing,
    FixedWindow,
    HostLimiter,
    PerAddress,
    SlidingCounter,
    SlidingLog,
    Together,
    Unbounded,
)
from tests.pacing.worlds.world import World

KINDS = (
    "token bucket",
    "leaky bucket",
    "fixed window",
    "sliding log",
    "sliding counter",
    "concurrency",
    "several",
    "changing",
    "ban",
    "per address",
    "slow under load",
    "noise",
    "block page",
)
SHORTEST = 140.0
"""Seconds that a run takes at least; it takes ten windows if that is longer."""


def between(chance: random.Random, low: float, high: float) -> float:
    """Return a number between the two; each order of magnitude is equally likely."""
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def draw(seed: int, kind: str | None = None) -> World:
    """Return the world of a seed."""
    chance = random.Random(seed)
    drawn = chance.choice(KINDS)
    kind = kind or drawn
    rate = between(chance, 1.0, 50.0)
    there = between(chance, 0.002, 0.15)
    values: dict[str, Any] = {
        "there": there,
        "jitter": there * chance.uniform(0.02, 0.3),
        "lateness": between(chance, 0.0002, 0.003),
        "stall": chance.choice((0.0, 0.0, between(chance, 0.02, 0.3))),
        "processes": chance.choice((1, 1, 2, 4, 8, 16)),
        "store": between(chance, 0.0005, 0.02),
        "service": between(chance, 0.002, 0.1),
        "spread": chance.choice((0.0, 0.3, 1.0)),
        "retry_after": chance.choice(
            ("none", "none", "none", "none", "none", "none", "right", "right", "right", "wrong")
        ),
        "status": chance.choice((429, 429, 429, 503)),
    }
    makers = {
        "token bucket": _bucket,
        "leaky bucket": _leaky,
        "fixed window": _window,
        "sliding log": _window,
        "sliding counter": _window,
        "concurrency": _concurrency,
        "several": _several,
        "changing": _changing,
        "ban": _ban,
        "per address": _per_address,
        "slow under load": _slow,
        "noise": _noise,
        "block page": _block_page,
    }
    world = makers[kind](seed, kind, rate, chance, values)
    world.seconds = max(world.seconds, 10 * world.limiter(random.Random(seed)).period)
    world.executors = max(16, math.ceil(3 * rate * 2 * (world.there + world.service) / world.processes))
    processes = f"{world.processes} processes" if world.processes > 1 else "1 process"
    world.text += f", {processes}, network {1000 * world.there:.0f} ms, Retry-After {world.retry_after}, {world.status}"
    return world


def _made(seed: int, kind: str, text: str, limiter: Any, values: dict[str, Any]) -> World:
    return World(seed, kind, text, SHORTEST, limiter, **values)


def _bucket(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    burst = 1 if chance.random() < 0.15 else round(between(chance, 2, max(5 * rate, 10)))
    return _made(seed, kind, f"{rate:.3g}/s, burst {burst:g}", lambda _: Bucket(rate, burst), values)


def _leaky(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    values |= {"servers": 1, "queue": round(between(chance, 1, 20)), "service": 1 / rate, "spread": 0.0}
    text = f"{rate:.3g}/s, {values['queue']} wait"
    return _made(seed, kind, text, lambda _: Unbounded(), values)


def _limits(chance: random.Random, rate: float) -> tuple[int, float]:
    seconds = chance.choice((1.0, 2.0, 5.0, 10.0, 10.0, 20.0, 30.0, 60.0))
    return max(round(rate * seconds), 2), seconds


def _a_window(kind: str, most: int, seconds: float, phase: float) -> HostLimiter:
    if kind == "fixed window":
        return FixedWindow(most, seconds, phase)
    return SlidingLog(most, seconds) if kind == "sliding log" else SlidingCounter(most, seconds, phase)


def _window(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    most, seconds = _limits(chance, rate)
    phase = chance.uniform(0, seconds)
    return _made(seed, kind, f"{most} per {seconds:g} s", lambda _: _a_window(kind, most, seconds, phase), values)


def _concurrency(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    values |= {"at_once": round(between(chance, 1, 16)), "service": between(chance, 0.05, 1.0), "retry_after": "none"}
    text = f"{values['at_once']} in flight, each {values['service']:.2g} s"
    return _made(seed, kind, text, lambda _: Unbounded(), values)


def _several(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    most, seconds = _limits(chance, rate)
    faster, burst = rate * chance.uniform(1.0, 3.0), round(between(chance, 1, 10))
    window = chance.choice(("fixed window", "sliding log"))
    if chance.random() < 0.3:
        values["at_once"] = max(2, math.ceil(2 * rate * values["service"]))
    return _made(
        seed,
        kind,
        f"{most} per {seconds:g} s ({window}) and {faster:.3g}/s, burst {burst:g}",
        lambda _: Together(_a_window(window, most, seconds, 0.3 * seconds), Bucket(faster, burst)),
        values,
    )


def _changing(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    at, parts = 0.0, list[tuple[float, float]]()
    high = True
    low_factor = between(chance, 0.15, 0.7)
    while at < SHORTEST:
        parts.append((at, rate if high else rate * low_factor))
        high = not high
        at += chance.uniform(25, 70)
    burst = round(between(chance, 1, 10))
    text = ", ".join(f"{limit:.3g}/s from {begin:.0f} s" for begin, limit in parts)
    return _made(
        seed, kind, text, lambda _: Changing(*((begin, Bucket(limit, burst)) for begin, limit in parts)), values
    )


def _ban(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    most, memory, ban = chance.choice((3, 5, 10)), chance.choice((10.0, 60.0, 1e9)), chance.uniform(5, 40)
    burst = round(between(chance, 1, 20))
    text = f"{rate:.3g}/s, burst {burst:g}, ban of {ban:.0f} s after {most} refusals in {memory:g} s"
    return _made(seed, kind, text, lambda _: Banning(Bucket(rate, burst), most, memory, ban), values)


def _per_address(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    values["processes"] = addresses = chance.choice((2, 4, 8))
    burst = round(between(chance, 1, 10))
    each = max(rate / addresses, 0.5)
    text = f"{each:.3g}/s and burst {burst:g} for each of {addresses} addresses"
    return _made(seed, kind, text, lambda _: PerAddress([Bucket(each, burst) for _ in range(addresses)]), values)


def _slow(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    servers = round(between(chance, 1, 12))
    service = between(chance, 0.05, 0.6)
    values |= {"servers": servers, "service": service, "spread": chance.choice((0.0, 0.2, 0.5))}
    text = f"{servers} at a time, each {service:.2g} s, the others wait"
    return _made(seed, kind, text, lambda _: Unbounded(), values)


def _noise(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    share = between(chance, 0.002, 0.04)
    burst = round(between(chance, 1, 10))
    values |= {"noise": share, "status": chance.choice((403, 429, 503)), "retry_after": "none"}
    text = f"{rate:.3g}/s, burst {burst:g}, and {100 * share:.1f} % refused for no reason"
    return _made(seed, kind, text, lambda it: Capricious(Bucket(rate, burst), share, it), values)


def _block_page(seed: int, kind: str, rate: float, chance: random.Random, values: dict[str, Any]) -> World:
    values |= {"status": 200, "retry_after": "none"}
    if chance.random() < 0.5:
        return _bucket(seed, kind, rate, chance, values)
    most, seconds = _limits(chance, rate)
    return _made(seed, kind, f"{most} per {seconds:g} s", lambda _: SlidingLog(most, seconds), values)
