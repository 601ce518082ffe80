"""SEC filings, read by many workers, as facts with their place in the text and as a graph."""
