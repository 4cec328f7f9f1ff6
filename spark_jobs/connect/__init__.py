"""Jobs whose session is a Spark Connect client: what a client can know of its queries without a JVM.

It may use ``core`` and ``spark``.
"""
