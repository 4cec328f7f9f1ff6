"""The fast part of Live: what the driver decides at every batch. Pure: no clock, no I/O, no Spark."""
