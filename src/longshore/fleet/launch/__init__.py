"""The start of a fleet: the checks, the plan, and the command of each worker."""
