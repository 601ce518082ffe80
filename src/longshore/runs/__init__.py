"""One campaign: jobs read from a file, a run to hold them, how fast it goes, what came of it."""
