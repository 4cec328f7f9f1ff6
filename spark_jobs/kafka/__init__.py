"""Kafka: the jars for it, a broker of one's own, the replay of a trace into a topic, and how far a query is behind."""
