"""Claim, execute, settle: the parts that run while a worker works."""
