"""The worker processes of one machine: supervision, partitions, size, and the checks before a start."""
