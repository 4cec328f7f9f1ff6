"""Forgetting: streams that people delete, and old rows of what was decided and published."""
