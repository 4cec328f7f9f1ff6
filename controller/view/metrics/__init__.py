"""The controller's metrics: what this process counts, and what the store says of every stream at each scrape.

What belongs to a stream is read from the store, so that it is right after a restart, the same on every replica, and
vanishes with the stream; what belongs to this process is counted in it. Base units: seconds, rows, bytes.
"""
