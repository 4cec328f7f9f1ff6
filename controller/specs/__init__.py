"""Streams by name, their events, and what people set for them: SLOs, policies, joins and pins, each with a version.

It uses ``base``.
"""
