"""Stored reports, as the API lists them."""
