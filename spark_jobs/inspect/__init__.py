"""Looks into the checkpoint of any query, watched or not: its watermarks, operators, open windows and rows of state.

It only reads, and uses ``spark`` alone. ``tidemark inspect`` prints what is found.
"""
