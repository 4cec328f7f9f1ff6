"""From evidence and an SLO to a recommended bound, step by step: the same inputs give the same recommendation.

It uses ``base``, ``protocol``, ``evidence`` and ``specs``.
"""
