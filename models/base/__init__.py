"""TODO: models/base."""
