"""The history checker: processes record their operations with the answers, and a pure function checks the records.

`RecordingQueue` wraps a queue and writes every call and every answer. `check` reads the histories of all processes and
the final observations of fresh handles, and returns every broken promise. docs/reliability.md lists the rules.
"""

from longshore.conformance.history.checker import RULES, Violation, check
from longshore.conformance.history.history_file import HistoryWriter, Moments, ProcessHistory, read_histories
from longshore.conformance.history.recording_queue import RecordingQueue

__all__ = [
    "RULES",
    "HistoryWriter",
    "Moments",
    "ProcessHistory",
    "RecordingQueue",
    "Violation",
    "check",
    "read_histories",
]
