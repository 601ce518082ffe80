"""What everything that settles jobs must do when an answer is lost or an outcome cannot be stored."""
