"""The counts, log lines, status and final report of a worker."""
