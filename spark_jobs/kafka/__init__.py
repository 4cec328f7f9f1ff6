"""Kafka: how far a query is behind its topics."""
