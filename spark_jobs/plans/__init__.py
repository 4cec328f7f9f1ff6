"""The check of a query's plan before it starts: joins, operators behind the first one, and plans that never emit.

It may use ``core`` and ``spark``; ``tidemark lint`` is the same check without a start, and ``tidemark inspect`` shows
what a query has left in its checkpoint.
"""
