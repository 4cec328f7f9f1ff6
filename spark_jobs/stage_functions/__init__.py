"""Functions in Java that Spark compiles into a stage: one counts rows, one sets future-dated event times back.

``DataFrame.observe`` counts the same at several times the cost, and serves where these cannot be used.
"""
