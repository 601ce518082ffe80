"""Which worker has which partitions."""
