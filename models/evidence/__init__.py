"""TODO: models/evidence."""
