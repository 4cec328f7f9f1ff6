"""Look-backs of batch runs: how far back each must read again, from a table with both times."""
