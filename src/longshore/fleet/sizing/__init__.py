"""The number of workers in a fleet, and how it follows the work."""
