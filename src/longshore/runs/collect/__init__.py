"""Results of runs, collected into a folder while they go on."""
