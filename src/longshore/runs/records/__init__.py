"""The records of a run, and reparsing its stored pages."""
