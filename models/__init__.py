"""The mathematics of Tidemark and what goes over the wire: pure, with no clock, no I/O, no Spark, no HTTP and no SQL.

Its folders, from the lowest up: ``base``, ``protocol``, ``evidence``, ``specs``, ``recommend``, ``rollout``, ``live``,
``backtest``. A module imports from its own folder and from lower ones.
"""
