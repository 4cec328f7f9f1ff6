"""Traces: recorded arrivals of a stream, read, checked, written and made from files. The only place for pyarrow."""
