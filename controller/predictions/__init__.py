"""Predictions of published bounds and how each came out."""
