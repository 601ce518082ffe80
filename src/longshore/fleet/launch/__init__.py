"""How the workers of a fleet are started."""
