"""Optional protocols that a queue may offer beyond the contract, one per file; `find` tells whether a queue does."""
