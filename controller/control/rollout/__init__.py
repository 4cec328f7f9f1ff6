"""Rollouts: facts, moves, and what an operator does with them."""
