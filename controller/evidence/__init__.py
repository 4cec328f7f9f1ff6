"""What follows from stored reports: rollups, needs, the ledger, and who is lost.

It uses ``base``, ``specs`` and ``reports``.
"""
