"""Recorded arrivals under any policy, and the yardsticks that a policy is compared with.

It uses all folders before it but ``rollout``.
"""
