"""Pins: kill switches on a stream, a job or the whole fleet."""
