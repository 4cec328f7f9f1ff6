"""Runs a query and starts it again, between two batches, for a bound that was published: modes Restart and OnRestart.

It may use ``core`` and ``spark``.
"""
