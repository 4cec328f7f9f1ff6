"""What a driver decides at every batch: the policy ``tidemark``, and what it observes and remembers of a stream.

It uses all folders before it but ``rollout``.
"""
