"""Which replica decides which streams: leases in the store."""
