"""Answers of the API: closed objects, whole numbers with their unit in the name, null for unknown."""
