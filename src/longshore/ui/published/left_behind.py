"""Say after a copy that the handlers of the first queue, and the pins of its runs, did not come along."""

from __future__ import annotations

from longshore.extensions.find import find
from longshore.extensions.published_code import read_versions
from longshore.extensions.shared_state import SharedState
from longshore.queue import Queue
from longshore.ui.output import write
from longshore.ui.words import counted


async def write_code_left(source: Queue, run: str | None, here: str, there: str) -> None:
    """Say which published code and pins of `source` stayed in it; `here` and `there` are the shown URLs."""
    if (state := find(source, SharedState)) is None:
        return
    versions = await read_versions(state)
    pins = {name: pinned for name, pinned in versions.pins.items() if run in (None, name)}
    if versions.current is not None:
        write(
            f"The handlers that {here} carries did not come along, because each queue is trusted by itself. Publish "
            f"them there: longshore publish FILE --queue {there}"
        )
    if pins:
        first = min(pins)
        write(
            f"{counted(len(pins), 'pinned run')} came along without the pin. Publish the version there, then: "
            f"longshore publish --pin {pins[first][:12]} --run {first} --queue {there}"
        )
