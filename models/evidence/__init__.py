"""What reports add up to: needs, sketches, the ledger, the curve, the pace, and which rows are lost.

It uses ``base`` and ``protocol``.
"""
