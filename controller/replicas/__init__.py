"""Replicas and their leases: which process decides which streams."""
