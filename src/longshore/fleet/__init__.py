"""Worker processes of one machine, supervised."""
