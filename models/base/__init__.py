"""Numbers, durations and ranges, how they are read and written, and the operators and granules that keys come from.

It uses nothing of ours.
"""
