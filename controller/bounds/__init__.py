"""Published bounds and what jobs acknowledged."""
