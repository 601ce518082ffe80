"""Exit codes that several commands share, besides 0 (success), 1 (a failure) and 2 (a wrong command)."""

from __future__ import annotations

INTERRUPTED = 130
"""Ended by Ctrl-C."""
OUTPUT_CLOSED = 141
"""The reader of standard output is gone (`| head`)."""
