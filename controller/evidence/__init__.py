"""Evidence of a stream: horizon, needs, ledger, roll-ups."""
