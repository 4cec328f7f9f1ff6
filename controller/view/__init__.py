"""What is shown of streams: their state and conditions, charts' data, alerts and metrics.

It uses all folders below it, and changes nothing but snapshots.
"""
