"""A task and the counts of a `Worker` class. Both are dicts, and have attributes, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from longshore.errors import Failure, UsageError
from longshore.handlers.kit import Kit
from longshore.stored import Json

if TYPE_CHECKING:
    import typing_extensions

    from longshore.observe.health import Vitals

    # With a default, so that `Task` alone is any task; `typing` has it from Python 3.13 on.
    KitT_co = typing_extensions.TypeVar("KitT_co", bound=Kit, covariant=True, default=Kit)
else:
    KitT_co = TypeVar("KitT_co", covariant=True)


class Task(dict[str, Json], Generic[KitT_co]):
    """A job as a `Worker` class sees it: a `Task[AsyncKit]` if `process_task` is async, otherwise a `Task[SyncKit]`.

    It is a dict with `id`, `type` and `params`; `task["params"]` and `task.params` are the same.
    """

    def __init__(self, id: str, type: str, params: Json, kit: KitT_co | None = None) -> None:  # noqa: A002
        super().__init__(id=id, type=type, params=params)
        self._kit = kit

    @property
    def id(self) -> str:
        return str(self["id"])

    @property
    def type(self) -> str:
        """The job's kind."""
        return str(self["type"])

    @property
    def params(self) -> Json:
        """The job's payload, or the model the class declares in `params`."""
        return self["params"]

    @property
    def kit(self) -> KitT_co:
        """The tools of a handler, such as `task.kit.http`. Under `longshore work`; `run` has none but `kit.log`.

        Raises `UsageError` for a task that did not come to `process_task` from either of them.
        """
        if self._kit is None:
            raise UsageError(f"Task {self.id} has no kit. Only `run` and `longshore work` give a task its kit.")
        return self._kit


class Stats(dict[str, int]):
    """The counts of a worker since it was made. Times are in seconds.

    The attributes count what the queue accepted. The entries `processed` and `failed` are counted by `run`; a loop of
    the user's own counts them itself, with any other entries.
    """

    def __init__(self) -> None:
        super().__init__(processed=0, failed=0)
        self.claimed = 0
        self.completed = 0
        self.failed = 0
        """Attempts that failed, whether the task will be tried again or not."""
        self.retried = 0
        """Those of them whose task will be tried again."""
        self.busy_seconds = 0.0
        self.uptime = 0.0
        self.errors_in_a_row = 0

    @property
    def success_rate(self) -> float:
        """The share of completed attempts among those that completed or failed, from 0 to 1; 0 before the first."""
        settled = self.completed + self.failed
        return self.completed / settled if settled else 0.0

    @property
    def average_processing_time(self) -> float:
        settled = self.completed + self.failed
        return self.busy_seconds / settled if settled else 0.0

    def vitals(self, queue_error: str = "") -> Vitals:
        """Return these counts with the use of memory and processor; `verdict` is `healthy`, or says what is wrong.

        `queue_error` is why the queue cannot be reached, if the caller knows that.
        """
        from longshore.observe.health import Vitals, cpu_percent, memory_bytes, memory_percent

        return Vitals(
            uptime=self.uptime,
            claimed=self.claimed,
            completed=self.completed,
            failed=self.failed - self.retried,
            retried=self.retried,
            busy_seconds=self.busy_seconds,
            errors_in_a_row=self.errors_in_a_row,
            queue_error=queue_error,
            memory_percent=memory_percent(),
            memory_bytes=memory_bytes(),
            cpu_percent=cpu_percent(),
        )


class ErrorText(str):
    """The message of an error, as `fail_task` gets it from `run`, with the failure that it came from."""

    __slots__ = ("failure",)
    failure: Failure

    @classmethod
    def of(cls, failure: Failure) -> ErrorText:
        text = cls(failure.message)
        text.failure = failure
        return text
