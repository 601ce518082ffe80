"""How far a run is, who works on it, what fails and what blocks it."""
