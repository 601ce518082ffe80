"""The tools that a worker gives to its handlers."""
