"""Bounds for all streams of a query together, such as the sides of a join."""
