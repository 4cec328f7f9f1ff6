"""What people run: the command line, the client of the interface, traces and backtests.

It uses all folders below it; of ``server`` mostly the schemas, since it starts the process and calls it.
"""
