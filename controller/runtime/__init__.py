"""What every part of a process uses: clock, log, settings file, shared reads."""
