"""What a worker counts, logs and reports about itself."""
