"""What is shown of streams: their state and conditions, charts' data, alerts, metrics and lineage.

It uses all folders below it, and changes nothing but snapshots.
"""
