"""Which transitions of jobs happened under which faults: the matrix of a trial, and its holes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from longshore.conformance.history.events import FaultSwitched
from longshore.conformance.history.history_file import ProcessHistory
from longshore.conformance.history.timeline import QueueCall, timeline

Cell = tuple[str, str]
"""A transition and a fault."""
Coverage = Counter[Cell]
"""How often each transition happened under each fault. The fault `none` counts those under no fault."""

TRANSITIONS = (
    "submit",
    "submit a duplicate",
    "claim",
    "complete",
    "fail",
    "fail for good",
    "snooze",
    "release an attempt",
    "refused settlement",
    "unknown answer",
    "reap",
    "retry",
    "cancel",
    "release",
    "prune",
    "take over",
    "path settler",
    "path shutdown",
    "path watchdog",
    "path orphaned lease",
    "path merge",
    "path move",
    "path reparse",
)
"""The rows of the matrix: what calls did, and the paths that settlements took."""
NO_FAULT = "none"
_OUTCOMES = {"completed": "complete", "snoozed": "snooze", "released": "release an attempt"}


def coverage(histories: Iterable[ProcessHistory]) -> Coverage:
    """Return how often each transition happened under each fault."""
    histories = list(histories)
    spans = list(_spans(histories))
    found: Coverage = Counter()
    for facts in timeline(histories).queues.values():
        for call in facts.calls:
            ended = call.answered.moment if call.answered is not None else call.began
            faults = {fault for fault, since, until in spans if since <= ended and call.began <= until} or {NO_FAULT}
            for transition in _transitions(call):
                found.update((transition, fault) for fault in faults)
    return found


def _spans(histories: Iterable[ProcessHistory]) -> Iterator[tuple[str, int, int]]:
    """Yield each fault with the moments between which it was on for some process."""
    switched = sorted(
        (event for history in histories for event in history.events if isinstance(event, FaultSwitched)),
        key=lambda event: event.moment,
    )
    on: dict[str, int] = {}
    for event in switched:
        if event.on:
            on.setdefault(event.fault, event.moment)
        elif event.fault in on:
            yield event.fault, on.pop(event.fault), event.moment
    for fault, since in on.items():
        yield fault, since, 1 << 62


def _transitions(call: QueueCall) -> Iterator[str]:
    called, answered = call.called, call.answered
    if answered is None or (answered.error and not answered.refused):
        yield "unknown answer"
        return
    match called.verb:
        case "submit":
            if answered.new:
                yield "submit"
            if answered.duplicates:
                yield "submit a duplicate"
        case "claim":
            if answered.leases:
                yield "claim"
        case "settle":
            if called.path:
                yield f"path {called.path}"
            for sent, accepted in zip(called.settlements, answered.accepted, strict=False):
                if not accepted:
                    yield "refused settlement"
                elif sent.outcome == "failed":
                    yield "fail for good" if sent.last else "fail"
                else:
                    yield _OUTCOMES[sent.outcome]
        case "take_over":
            if answered.new:
                yield "take over"
        case verb:
            if answered.changed:
                yield verb


def table(found: Coverage, faults: Iterable[str], impossible: Mapping[Cell, str] | None = None) -> str:
    """Return the matrix as text, a row for each transition, and below it the holes by name.

    `impossible` are cells that cannot be reached, each with the reason; they are no holes.
    """
    impossible = impossible or {}
    columns = [NO_FAULT, *faults]
    width = max(map(len, TRANSITIONS))
    # Faults have long names: each column is a letter, explained above the matrix.
    letters = [chr(ord("A") + number) for number in range(len(columns))]
    lines = [f"{letter}  {fault}" for letter, fault in zip(letters, columns, strict=True)]
    lines += ["", " " * width + "".join(f"{letter:>7}" for letter in letters)]
    for transition in TRANSITIONS:
        shown = (found[cell] or ("-" if cell in impossible else "·") for cell in ((transition, f) for f in columns))
        lines.append(f"{transition:<{width}}" + "".join(f"{each:>7}" for each in shown))
    cannot = {(transition, fault) for transition, fault in impossible if fault in columns}
    holes = {
        fault: [each for each in TRANSITIONS if not found[each, fault] and (each, fault) not in cannot]
        for fault in columns
    }
    cells, empty = len(columns) * len(TRANSITIONS) - len(cannot), sum(map(len, holes.values()))
    lines += ["", f"{cells - empty} of {cells} cells were reached. The holes:"]
    lines += [f"  {fault}: {', '.join(missing)}" for fault, missing in holes.items() if missing]
    if cannot:
        lines.append("Not possible (-):")
        lines += [f"  {transition}, {fault}: {impossible[transition, fault]}" for transition, fault in sorted(cannot)]
    return "\n".join(lines)
