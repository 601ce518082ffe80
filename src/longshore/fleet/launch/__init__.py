"""The start of a fleet: whether it may start, the command and environment of each worker, and its log."""
