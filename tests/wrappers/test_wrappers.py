"""Every wrapper passes on the whole contract, and extensions are found, and timed, through all of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.errors import UsageError
from longshore.extensions.archive import Archives
from longshore.extensions.claim_stats import ClaimStats
from longshore.extensions.find import TRAIT_OF, find, require
from longshore.extensions.payloads import PayloadLookup
from longshore.extensions.presence import WorkerRegistry
from longshore.extensions.rejected import KeepsRejected
from longshore.extensions.shared_state import SharedState
from longshore.extensions.transfer import TakesOver
from longshore.media.memory import MemoryQueue
from longshore.queue import Queue, Traits
from longshore.wrappers.call_timer import TimedQueue
from longshore.wrappers.differing_duplicates import DuplicateComparingQueue
from longshore.wrappers.growth_limits import GrowthLimitedQueue
from longshore.wrappers.paused import PausableQueue
from longshore.wrappers.queue_wrapper import QueueWrapper
from longshore.wrappers.traced import TracedQueue
from longshore.wrappers.worker_queue import WorkerQueue


class NoTraces:
    """Takes what a traced queue tells, and forgets it."""

    def submitted(self, *told: object) -> None: ...

    def claimed(self, *told: object) -> None: ...

    def settled(self, *told: object) -> None: ...


WRAPPERS: dict[str, Callable[[Any], Queue]] = {
    "queue wrapper": QueueWrapper,
    "traces": lambda queue: TracedQueue(queue, NoTraces()),
    "call timer": lambda queue: TimedQueue(queue, ManualClock()),
    "duplicates": lambda queue: DuplicateComparingQueue(queue, ManualClock()),
    "growth limits": lambda queue: GrowthLimitedQueue(queue, ManualClock()),
    "pause": lambda queue: PausableQueue(queue, ManualClock()),
    "worker queue": lambda queue: WorkerQueue(queue, ManualClock()),
}
MAY_TAKE_LONG = {"wait", "close"}
ANSWERLESS = {"close", "deregister", "forget_history"}
"""Methods that return None."""
NOTHING = Traits(name="bare", spans_processes=False, spans_machines=False, wakes=False)
EVERYTHING = msgspec.structs.replace(NOTHING, **dict.fromkeys(TRAIT_OF.values(), True))


def methods_of(protocol: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(protocol, inspect.iscoroutinefunction)]


CONTRACT = methods_of(Queue)
EXTENSIONS = [(extension, name) for extension in TRAIT_OF for name in methods_of(extension)]


def arguments(protocol: type, name: str) -> dict[str, object]:
    """A value for each parameter of a method, none of them its default."""
    parameters = [each for each in inspect.signature(getattr(protocol, name)).parameters if each != "self"]
    return {each: _want if each == "want" else (each, 1) for each in parameters}


class _Want:
    """Enough of a `Want` for a queue in which nothing is paused."""

    run = None


_want = _Want()


class Recorder:
    """Keeps every call of the contract and of all extensions, and answers when it is told to."""

    def __init__(self, traits: Traits = NOTHING) -> None:
        self.traits = traits
        self.calls: list[tuple[str, dict[str, object]]] = []
        self.go = asyncio.Event()
        self.go.set()


def _recording(protocol: type, name: str) -> Callable[..., Any]:
    signature = inspect.signature(getattr(protocol, name))

    async def recorded(self: Recorder, *given: Any, **named: Any) -> tuple[str, ...]:
        asked = signature.bind(self, *given, **named).arguments
        self.calls.append((name, {key: value for key, value in asked.items() if key != "self"}))
        await self.go.wait()
        return ("the answer to", name)

    return recorded


for _protocol, _name in [*((Queue, name) for name in CONTRACT), *EXTENSIONS]:
    setattr(Recorder, _name, _recording(_protocol, _name))


def a_recorder(traits: Traits = NOTHING) -> Any:
    return Recorder(traits)


def test_the_contract_and_the_extensions_have_methods() -> None:
    assert {"submit", "claim", "settle", "close"} <= set(CONTRACT)
    assert {extension for extension, _ in EXTENSIONS} == set(TRAIT_OF)


def test_every_extension_has_a_trait() -> None:
    flags = {name for name, kind in Traits.__annotations__.items() if kind == "bool"}
    plain = {"spans_processes", "spans_machines", "wakes", "quick_shared_state", "one_clock", "keeps_limits"}
    assert flags - set(TRAIT_OF.values()) == plain


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
@pytest.mark.parametrize("name", CONTRACT)
async def test_a_wrapper_passes_on_every_call_of_the_contract_with_its_arguments(
    wrap: Callable[[Any], Queue], name: str
) -> None:
    asked = {**arguments(Queue, name), **({"settlements": ()} if name == "settle" else {})}
    medium = a_recorder()
    answer = await getattr(wrap(medium), name)(**asked)
    assert medium.calls == [(name, asked)]
    assert answer == (None if name in ANSWERLESS else ("the answer to", name))


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_wrapper_has_the_traits_of_its_medium_and_can_be_unwrapped(wrap: Callable[[Any], Any]) -> None:
    medium = a_recorder(EVERYTHING)
    layer = wrap(medium)
    assert layer.traits is EVERYTHING
    depth = 0
    while layer is not medium:
        layer, depth = layer.unwrap(), depth + 1
    assert 1 <= depth <= 4


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
@pytest.mark.parametrize(("extension", "name"), EXTENSIONS, ids=[name for _, name in EXTENSIONS])
async def test_an_extension_is_found_through_every_wrapper(
    wrap: Callable[[Any], Queue], extension: Any, name: str
) -> None:
    asked = arguments(extension, name)
    medium = a_recorder(EVERYTHING)
    answer = await getattr(find(wrap(medium), extension), name)(**asked)
    assert medium.calls == [(name, asked)]
    assert name in ANSWERLESS or answer == ("the answer to", name)


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
@pytest.mark.parametrize("extension", TRAIT_OF)
def test_an_extension_without_its_trait_is_not_found(wrap: Callable[[Any], Queue], extension: Any) -> None:
    others = msgspec.structs.replace(EVERYTHING, **{TRAIT_OF[extension]: False})
    queue = wrap(a_recorder(others))
    assert find(queue, extension) is None
    with pytest.raises(UsageError, match=r"^A bare queue cannot do it\.$"):
        require(queue, extension, "cannot do it.")


def test_a_medium_that_lacks_what_its_traits_promise_is_a_mistake() -> None:
    class Boasts(MemoryQueue):
        traits = EVERYTHING

    assert find(Boasts(), SharedState) is not None
    with pytest.raises(TypeError, match="Boasts lacks methods of Archives"):
        find(Boasts(), Archives)


@pytest.mark.parametrize("name", [*CONTRACT, *(name for _, name in EXTENSIONS)])
async def test_the_call_timer_sees_every_call_but_those_that_may_take_long(name: str) -> None:
    medium, clock = a_recorder(EVERYTHING), ManualClock()
    wrapped = WorkerQueue(medium, clock)
    protocol = next((extension for extension, each in EXTENSIONS if each == name), None)
    target: Any = wrapped.limits if protocol is None else find(wrapped, protocol)
    medium.go.clear()
    asked = {**arguments(protocol or Queue, name), **({"settlements": ()} if name == "settle" else {})}
    calling = asyncio.create_task(getattr(target, name)(**asked))
    for _ in range(5):
        await asyncio.sleep(0)
    clock.advance(10)
    assert wrapped.timer.silence == (0 if name in MAY_TAKE_LONG else 10)
    medium.go.set()
    await calling
    assert medium.calls[-1] == (name, asked)
    assert wrapped.timer.silence == 0


def typed(
    timer: TimedQueue,
) -> tuple[WorkerRegistry, SharedState, TakesOver, Archives, KeepsRejected, ClaimStats, PayloadLookup]:
    """Checked by mypy: the call timer has the methods of every extension with their types."""
    return timer, timer, timer, timer, timer, timer, timer
