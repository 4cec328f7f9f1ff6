"""Documents of SLOs, policies and joins, our own and those of OpenSLO, as ``tidemark apply`` reads and writes them.

It uses ``specs``.
"""
