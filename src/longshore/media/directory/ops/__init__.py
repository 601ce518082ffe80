"""The operations of the contract on a directory queue."""
