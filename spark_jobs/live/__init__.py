"""Live: the watermark steered while the query runs.

It may use ``core`` and ``spark``.
"""
