"""Jobs from files and sources, submitted into a run."""
