"""Wrappers of a queue that add one rule each, and the order in which a worker stacks them."""
