"""The state of a stream, its conditions, and what lists show of it."""
