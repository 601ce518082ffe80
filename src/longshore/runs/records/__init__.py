"""The records of a run, and parsing its pages again."""
