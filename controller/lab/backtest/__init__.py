"""Policies replayed over traces, and the results as a table, JSON and a timeline."""
