"""Old rows and deleted streams: what goes, in bounded steps, and the thread that does it.

It uses all below it in ``control``.
"""
