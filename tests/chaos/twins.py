"""Broken twins: one fault each, of the kind that a medium or a worker may really have. The checker must find them."""

from __future__ import annotations


def install(twin: str, role: str) -> None:
    """Break this process in the way that the twin is broken. An empty name breaks nothing."""
    if twin:
        raise ValueError(f"There is no twin '{twin}'.")
