"""What a job sends and what it receives: reports, acknowledgements, bounds, and what a call says of a job's query.

It uses ``base``.
"""
