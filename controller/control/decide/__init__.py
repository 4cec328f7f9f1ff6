"""From evidence to a recommendation: load, decide, one write."""
