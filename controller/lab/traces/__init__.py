"""Traces, which are recorded arrivals of a stream: read, checked, written, and made from files or a Kafka topic."""
