"""Joins: the SLO on the joined output of streams of one query, and what it asks of each of them."""
