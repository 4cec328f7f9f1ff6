"""Policies replayed over traces, and the results as a table, JSON, a timeline and a picture."""
