"""When a run will be done."""
