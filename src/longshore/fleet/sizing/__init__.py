"""How many workers a fleet has."""
