"""Rollouts: from a recommended bound to one that is verified, as an explicit state machine. Pure."""
