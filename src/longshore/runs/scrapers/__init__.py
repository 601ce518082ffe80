"""Named scrapers: the registry, starting one and resuming one."""
