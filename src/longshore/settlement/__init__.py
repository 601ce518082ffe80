"""How to settle when an answer was lost or an outcome cannot be stored; used by everything that settles jobs."""
