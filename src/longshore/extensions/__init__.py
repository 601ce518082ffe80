"""What a queue may offer beyond the contract: one protocol a file."""
