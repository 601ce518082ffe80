"""The assignment of partitions to workers."""
