"""What is known of a stream: the horizon, needs, the ledger, roll-ups."""
