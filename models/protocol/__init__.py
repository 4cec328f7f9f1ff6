"""TODO: models/protocol."""
