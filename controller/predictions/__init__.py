"""Predictions for published bounds, and how each came out."""
