"""A `Worker` class as handlers: how `longshore work` makes its instance and calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from longshore.handlers.handler import AttemptLimits, Handler, Returned
from longshore.handlers.kit import AsyncKit, Kit, SyncKit
from longshore.job import Job
from longshore.stored import Json

if TYPE_CHECKING:
    from longshore.handlers.worker_class import Worker


class ClassInstance:
    """The instance of a `Worker` class under `longshore work`: one in each process, made when it is first needed."""

    def __init__(self, worker: type[Worker]) -> None:
        self.worker = worker
        self._url = ""
        self._label: str | None = None
        self._made: Worker | None = None

    def connect(self, url: str, label: str) -> None:
        """Let the instance be made with this queue and name. A child process does not know the queue: it is empty."""
        self._url, self._label = url, label

    @property
    def has_check(self) -> bool:
        """Whether the class overrides `health_check`."""
        from longshore.handlers.worker_class import Worker

        return self.worker.health_check is not Worker.health_check

    def still_healthy(self) -> bool:
        """Return what an overridden `health_check` says now, while the instance may be at work. May take long."""
        return not self.has_check or self().healthy()

    def healthy(self) -> bool:
        """Return whether work can begin, as an overridden `health_check` says. May take long."""
        if not self.has_check:
            return True
        made = self()
        try:
            return made.healthy()
        finally:
            # It may have opened the queue once more.
            made.close()

    def __call__(self) -> Worker:
        """Return the instance."""
        if self._made is None:
            # A class may take fewer arguments.
            make: Callable[..., Worker] = self.worker
            self._made = make(*(self._url, self._label, {})[: _accepted(self.worker)])
        return self._made


def connect(handlers: Iterable[Handler], url: str, label: str) -> list[ClassInstance]:
    """Connect the instances of the handlers that are methods of a class, and return these instances."""
    instances = list(dict.fromkeys(handler.instance for handler in handlers if handler.instance is not None))
    for instance in instances:
        instance.connect(url, label)
    return instances


def class_handlers(worker: type[Worker]) -> dict[str, Handler]:
    """Return a handler for each kind of the class. All share one instance."""
    instance = ClassInstance(worker)
    made = {kind: class_handler(worker, kind, instance) for kind in sorted(kinds_of(worker))}
    for handler in made.values():
        handler.instance = instance
    return made


def class_handler(worker: type[Worker], kind: str, instance: Callable[[], Worker]) -> Handler:
    """Return the handler of one kind. `instance` returns the object whose `process_task` is called."""

    def process(job: Job, kit: Kit, params: Json) -> Returned:
        made = instance()
        assert isinstance(kit, SyncKit | AsyncKit)  # noqa: S101 (there are no others)
        return made.process_task(made.task_of(job, kit, params))

    async def process_async(job: Job, kit: Kit, params: Json) -> object:
        return await process(job, kit, params)

    async def process_async_bare(job: Job, kit: Kit) -> object:
        return await process(job, kit, job.payload)

    def process_bare(job: Job, kit: Kit) -> object:
        return process(job, kit, job.payload)

    function: Callable[..., object]
    if inspect.iscoroutinefunction(worker.process_task):
        function = process_async_bare if worker.params is None else process_async
    else:
        function = process_bare if worker.params is None else process
    function.__qualname__ = f"{worker.__qualname__}.process_task"
    handler = Handler(
        kind,
        function,
        limits=AttemptLimits(worker.timeout, worker.retries, worker.backoff),
        params=worker.params,
        identity=worker.identity,
    )
    if handler.identity is not None:
        handler.identities = dict.fromkeys({kind, *kinds_of(worker)}, handler.identity)
    return handler


def kinds_of(worker: Worker | type[Worker]) -> frozenset[str]:
    """Return the kinds that a class declares."""
    kinds = worker.kinds
    return frozenset({kinds} if isinstance(kinds, str) else kinds or ())


def _accepted(worker: type[Worker]) -> int:
    """Return how many positional arguments the constructor takes, at most 3."""
    parameters = inspect.signature(worker).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 3
    return sum(each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD} for each in parameters)
