"""What people set for a stream (SLO and policy), and what is wrong with a query's plan before it runs.

It uses ``base`` and ``protocol``.
"""
