"""Streams and jobs: finding, creating, locking and listing them."""
