"""The queue as one tree of the branch describes it, and the operations on it."""
