"""TODO: models/specs."""
