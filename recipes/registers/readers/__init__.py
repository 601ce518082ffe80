"""A reader for the pages of each register: its layouts, encodings, numbers and dates."""
