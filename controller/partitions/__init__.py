"""The partitions of a stream."""
