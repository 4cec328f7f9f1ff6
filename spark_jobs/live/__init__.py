"""Live: the watermark steered while the query runs, through a control stream.

It may use ``core`` and ``spark``.
"""
