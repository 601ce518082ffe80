"""The journal: the authority on the state of a directory queue."""
