"""What one process is made of: clock, log, settings file, reads that are shared."""
