"""From a recommended bound to one that is verified: an explicit state machine with its gates and limits.

It uses all folders before it.
"""
