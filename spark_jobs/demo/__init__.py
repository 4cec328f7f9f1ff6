"""The demonstration: the whole loop on a real Spark stream, first with a guessed bound; and example jobs.

It may use all of ``spark_jobs``; no job needs it.
"""
