"""The decision log: what changed, when, why, and by whom."""
