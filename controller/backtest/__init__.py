"""Policies replayed over recorded traces, and what is shown of it."""
