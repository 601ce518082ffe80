"""A run from its first job to its last on this machine."""
